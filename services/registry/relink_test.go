package registry_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry"
)

// Two agents hold each other's rows. One batch with the etags that the operator saw relinks both, says whose link was set aside for it, and
// shows no key that is none.
func TestI14_ABatchRelinksTwoAgentsThatHoldEachOthersRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.db")
	c := serve(t, func(cfg *registry.Config) { cfg.Database.URL = config.Secret("sqlite:" + file) })
	c.record(t, beats("SP-1", "SP-2", "SP-3"))
	for _, name := range []string{"SP-1", "SP-2", "SP-3"} {
		if _, err := c.agents.AcceptAgent(t.Context(), &registryv1.AcceptAgentRequest{
			Name: name, Etag: c.read(t, name).GetEtag(), Actor: "op", CreateServer: &registryv1.NewServer{Url: "https://x"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, statement := range []string{
		`UPDATE TblServer SET Name = CASE Name WHEN 'SP-1' THEN 'SP-2' ELSE 'SP-1' END WHERE Name <> 'SP-3'`, `DELETE FROM TblServer WHERE Name = 'SP-3'`,
	} {
		if _, err := raw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.agents.RelinkAgent(t.Context(), &registryv1.RelinkAgentRequest{Name: "SP-3", Etag: c.read(t, "SP-3").GetEtag(), Actor: "op"})
	refused(t, err, fault.ServerNotFound, "reject the agent, and remove it")

	seen := []*registryv1.BatchAcceptItem{{Name: "sp-1", Etag: c.read(t, "SP-1").GetEtag()}, {Name: "sp-2", Etag: c.read(t, "SP-2").GetEtag()}}
	done, err := c.agents.BatchRelinkAgents(t.Context(), &registryv1.BatchRelinkAgentsRequest{Actor: "op", Items: seen})
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range done.GetResults() {
		aside := []string{"SP-2", ""}[i]
		if result.GetReason() != "" || result.GetAgent().GetLinkSetAside() != aside || result.GetAgent().GetServer().GetName() != result.GetAgent().GetName() {
			t.Errorf("%d: %v", i, result)
		}
	}
	if again, err := c.agents.BatchRelinkAgents(t.Context(), &registryv1.BatchRelinkAgentsRequest{Actor: "op", Items: seen[:1]}); err != nil || again.GetResults()[0].GetReason() != string(fault.StaleEtag) {
		t.Errorf("with an etag that another call made stale: %v %v", again, err)
	}

	if _, err := raw.ExecContext(t.Context(), `UPDATE TblServer SET Name = CASE Name WHEN 'SP-1' THEN 'SP-2' ELSE 'SP-1' END`); err != nil {
		t.Fatal(err)
	}
	if _, err := c.agents.RelinkAgent(t.Context(), &registryv1.RelinkAgentRequest{Name: "SP-1", Etag: c.read(t, "SP-1").GetEtag(), Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	if link := c.read(t, "SP-2").GetServer(); link.GetServerKey() != 0 || !link.GetMissing() {
		t.Errorf("a link that was set aside is shown as %v", link)
	}
}
