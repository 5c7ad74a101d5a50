package sweep

import (
	"strings"
	"testing"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// A key may be another server's since the link was made. An agent of another name then tells nothing of the server, nor does its removal.
func TestI18_AnAgentOfAnotherNameTellsNothingOfAServer(t *testing.T) {
	read := &agents{byServer: map[int64]agent{}}
	for key, linked := range map[int64]*registryv1.FleetServer{
		1: {Agent: "ÖL-1", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED},
		2: {Agent: "other", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED},
		3: {Agent: "other", Removed: true},
		4: {Agent: "SP-4", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED, Astray: true},
		5: {Agent: "SP-5", Removed: true},
		6: {Agent: "other", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_REJECTED},
	} {
		linked.ServerKey = key
		read.byServer[key] = newAgent(linked, time.Hour)
	}
	names := map[int64]string{1: "öl-1", 2: "SP-2", 3: "SP-3", 4: "sp-4", 5: "SP-5", 6: "SP-6", 7: "SP-7"}
	for key, want := range map[int64]verdict.Reason{
		1: verdict.NeverHeard, 2: verdict.AgentAstray, 3: verdict.NeverAccepted, 4: verdict.AgentAstray, 5: verdict.AgentRemoved, 6: verdict.AgentAstray, 7: verdict.NeverAccepted,
	} {
		found := read.of(&store.Server{Key: key, Name: names[key]})
		got := verdict.Judge(found.Agent, time.Now(), time.Minute)
		if got.Reason != want || (want != verdict.AgentRemoved && got.Availability != verdict.Unknown) {
			t.Errorf("server %d: %+v, want %s", key, got, want)
		}
	}
	if text := detail(verdict.Status{Verdict: verdict.Verdict{Reason: verdict.AgentAstray}}, ""); !strings.Contains(text, "relink") {
		t.Errorf("nothing says what to do: %q", text)
	}
}
