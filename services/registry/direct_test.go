package registry_test

import (
	"crypto/sha256"
	"slices"
	"testing"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// directly makes heartbeats come from a machine that calls a control server.
func directly(machine string, enrols bool, request *registryv1.RecordHeartbeatsRequest) *registryv1.RecordHeartbeatsRequest {
	token := sha256.Sum256([]byte(machine))
	for _, observed := range request.GetHeartbeats() {
		observed.Path = registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT
		observed.Identity = &registryv1.DirectIdentity{TokenHash: token[:], Enrols: enrols}
	}
	return request
}

const (
	created       = registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED
	updated       = registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED
	wrongToken    = registryv1.HeartbeatResult_HEARTBEAT_RESULT_WRONG_TOKEN
	notRegistered = registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_REGISTERED
	notClaimable  = registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_CLAIMABLE
)

func (c clients) expect(t *testing.T, request *registryv1.RecordHeartbeatsRequest, want ...registryv1.HeartbeatResult) {
	t.Helper()
	if got := c.record(t, request); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestI13_AMachineRegistersAndASecondOneIsShownAsAConflict(t *testing.T) {
	c := serve(t)
	c.expect(t, directly("one", false, beats("BM-1")), notRegistered)
	c.expect(t, directly("one", true, beats("BM-1")), created)
	second := directly("one", false, beats("bm-1"))
	second.Heartbeats[0].Heartbeat.Sequence++
	c.expect(t, second, updated)
	c.expect(t, directly("two", false, beats("bm-1")), wrongToken)
	if agent := c.read(t, "BM-1"); !agent.GetHasToken() || agent.GetClaimable() || agent.GetIdentityConflictAt() != nil || agent.GetOnServiceBus() {
		t.Fatal(agent)
	}
	c.expect(t, directly("two", true, beats("bm-1")), wrongToken)
	marked := c.read(t, "BM-1")
	if marked.GetIdentityConflictAt() == nil {
		t.Fatal(marked)
	}
	_, err := c.agents.ResetToken(t.Context(), &registryv1.ResetTokenRequest{Name: "BM-1", Actor: "tester"})
	refused(t, err, fault.EtagRequired, "etag")
	_, err = c.agents.ResetToken(t.Context(), &registryv1.ResetTokenRequest{Name: "BM-1", Etag: "1-99", Actor: "tester"})
	refused(t, err, fault.StaleEtag, "")
	_, err = c.agents.ResetToken(t.Context(), &registryv1.ResetTokenRequest{Name: "BM-9", Etag: "1-1", Actor: "tester"})
	refused(t, err, fault.AgentNotFound, "BM-9")
	reset, err := c.agents.ResetToken(t.Context(), &registryv1.ResetTokenRequest{Name: "bm-1", Etag: marked.GetEtag(), Actor: "tester"})
	if agent := reset.GetAgent(); err != nil || agent.GetHasToken() || !agent.GetClaimable() || agent.GetIdentityConflictAt() != nil || agent.GetEtag() == marked.GetEtag() {
		t.Fatal(reset, err)
	}
	c.expect(t, directly("two", true, beats("bm-1")), updated)
	c.expect(t, directly("one", true, beats("bm-1")), wrongToken)
	list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 1 || !list.GetAgents()[0].GetHasToken() || list.GetAgents()[0].GetClaimable() {
		t.Fatal(list, err)
	}
}

func TestANameKnownFromTheBusIsNotClaimedByWhoeverEnrols(t *testing.T) {
	c := serve(t)
	c.expect(t, beats("BM-1"), created)
	c.expect(t, directly("one", true, beats("BM-1")), notClaimable)
	if agent := c.read(t, "BM-1"); agent.GetHasToken() || agent.GetLastDirectHeartbeatAt() != nil {
		t.Fatal(agent)
	}
}

func TestI17_AnIdentityThatIsWrongNamesItsFieldAndHarmsNoOther(t *testing.T) {
	c := serve(t)
	request := directly("one", true, beats("BM-1", "BM-2", "BM-3", "BM-4"))
	request.Heartbeats[0].Identity = nil
	request.Heartbeats[1].Identity.TokenHash = request.Heartbeats[1].Identity.TokenHash[1:]
	request.Heartbeats[2].Path = registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS
	response, err := c.agents.RecordHeartbeats(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for i, field := range []string{"identity.token_hash", "identity.token_hash", "identity", ""} {
		if result := response.GetResults()[i]; result.GetField() != field || (result.GetDescription() != "") != (field != "") {
			t.Errorf("item %d: %v, want field %q", i, result, field)
		}
	}
	if list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{}); err != nil || len(list.GetAgents()) != 1 {
		t.Fatal(list, err)
	}
}
