package ingress

import (
	"strings"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// taken tells whether the heartbeat was from the agent that the name belongs to, and its effect is stored, now or before.
func taken(result registryv1.HeartbeatResult) bool {
	switch result {
	case registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED, registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED,
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_STALE, registryv1.HeartbeatResult_HEARTBEAT_RESULT_DUPLICATE:
		return true
	}
	return false
}

// refusalOf says why an agent's heartbeat was not taken; nil when it was. An agent that enrols and presents another token than the
// stored one is a second machine; one that does not has forgotten who it is.
func refusalOf(recorded *registryv1.RecordedHeartbeat, name string, enrols bool) *fault.Error {
	if taken(recorded.GetResult()) {
		return nil
	}
	switch recorded.GetResult() {
	case registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID:
		return fault.Invalid(pointerOf(recorded.GetField()), "%s", strings.TrimPrefix(recorded.GetDescription(), recorded.GetField()+": "))
	case registryv1.HeartbeatResult_HEARTBEAT_RESULT_WRONG_TOKEN:
		if enrols {
			return fault.New(fault.IdentityConflict, "another machine is registered under the name %q; it stays so, and operators see the conflict. "+
				"Give this agent a name of its own, or have an operator reset the name's token", name).WithAgent(name)
		}
		return fault.New(fault.Unauthenticated, "the token is not the one registered for %q; the heartbeat was not stored. "+
			"Register again, or have an operator reset the name's token", name).WithAgent(name)
	case registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_REGISTERED:
		return fault.New(fault.NotRegistered, "%q is not known; the heartbeat was not stored. Register first", name).WithAgent(name)
	case registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_CLAIMABLE:
		return fault.New(fault.NotClaimable, "%q is known from the bus and has no token; nothing was changed. "+
			"Have an operator allow the name to be claimed, then register again", name).WithAgent(name)
	}
	return fault.New(fault.Internal, "the registry's answer is not understood; whether the heartbeat is stored is not known").WithAgent(name)
}

// pointerOf turns a proto path ("heartbeat.iis_bindings.bindings[3].site_name") into the JSON pointer of the request.
func pointerOf(path string) string {
	var pointer strings.Builder
	for _, element := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		words := strings.Split(element, "_")
		for i, word := range words[1:] {
			if word != "" {
				words[i+1] = strings.ToUpper(word[:1]) + word[1:]
			}
		}
		pointer.WriteString("/" + strings.Join(words, ""))
	}
	return pointer.String()
}
