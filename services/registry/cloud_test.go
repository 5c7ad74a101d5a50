package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry"
)

const (
	normal   = registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL
	draining = registryv1.ControlServerState_CONTROL_SERVER_STATE_DRAINING
)

// hasty spreads agents at the next look.
func hasty(cfg *registry.Config) { cfg.Cloud.Debounce = 0 }

func renewal(name string) *registryv1.RenewControlServerRequest {
	return &registryv1.RenewControlServerRequest{
		Name: name, GrpcEndpoint: name + ":8443", RestEndpoint: "https://" + name, Version: "1.0", ProtocolMin: 1, ProtocolMax: 2, AgentsConnected: 3,
	}
}

func (c clients) join(t testing.TB, names ...string) (last *registryv1.RenewControlServerResponse) {
	t.Helper()
	for _, name := range names {
		var err error
		if last, err = c.cloud.RenewControlServer(t.Context(), renewal(name)); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func (c clients) overview(t testing.TB) *registryv1.ListControlServersResponse {
	t.Helper()
	response, err := c.cloud.ListControlServers(t.Context(), &registryv1.ListControlServersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func (c clients) control(t testing.TB, name string) *registryv1.ControlServer {
	t.Helper()
	for _, s := range c.overview(t).GetServers() {
		if s.GetName() == name {
			return s
		}
	}
	t.Fatalf("no control server %s", name)
	return nil
}

// until waits for what the job does at one of its next looks.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !is(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

func (c clients) listOf(t testing.TB, agent string) []string {
	t.Helper()
	response, err := c.cloud.GetFailoverList(t.Context(), &registryv1.GetFailoverListRequest{Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range response.GetFailoverList().GetServers() {
		names = append(names, s.GetName())
	}
	return names
}

func TestTheCloudFromJoinToRemoval(t *testing.T) {
	c := serve(t, hasty)
	c.record(t, beats("BM-1", "BM-2", "BM-3", "BM-4"))
	if got := c.listOf(t, "BM-1"); got != nil {
		t.Fatal("a list without control servers: ", got)
	}
	if answer := c.join(t, "a"); answer.GetState() != normal || !strings.Contains(fmt.Sprint(answer.GetWarnings()), `"a" is the only control server`) {
		t.Fatal(answer)
	}
	c.join(t, "b")
	until(t, "both have their agents, and are listed", func() bool {
		return c.control(t, "b").GetAgentsAssigned() == 2 && slices.Equal(slices.Sorted(slices.Values(c.listOf(t, "bm-1"))), []string{"a", "b"})
	})
	a := c.control(t, "a")
	if a.GetGrpcEndpoint() != "a:8443" || a.GetRestEndpoint() != "https://a" || a.GetVersion() != "1.0" || a.GetProtocolMin() != 1 || a.GetProtocolMax() != 2 || a.GetState() != normal ||
		a.GetMode() != registryv1.ControlServerMode_CONTROL_SERVER_MODE_NORMAL || a.GetWeight() != 100 || a.GetRenewedAt() == nil || a.GetDrainEndsAt() != nil || a.GetAgentsConnected() != 3 || a.GetEtag() == "" {
		t.Fatal(a)
	}
	updated, err := c.cloud.UpdateControlServer(t.Context(), &registryv1.UpdateControlServerRequest{
		Name: "A", Etag: a.GetEtag(), Mode: registryv1.ControlServerMode_CONTROL_SERVER_MODE_MAINTENANCE, Weight: new(int32(50)), Standby: new(true), Actor: "anna",
	})
	if err != nil || updated.GetServer().GetState() != draining || updated.GetServer().GetWeight() != 50 || !updated.GetServer().GetStandby() || updated.GetServer().GetChangedBy() != "anna" {
		t.Fatal(updated, err)
	}
	until(t, "only b is listed", func() bool { return slices.Equal(c.listOf(t, "BM-1"), []string{"b"}) })
	a = c.control(t, "a")
	if a.GetAgentsAssigned() != 0 || a.GetDrainEndsAt() == nil || c.join(t, "a").GetState() != draining {
		t.Fatal(a)
	}
	events, err := c.cloud.ListPartitionEvents(t.Context(), &registryv1.ListPartitionEventsRequest{PageSize: 1})
	if err != nil || len(events.GetEvents()) != 1 || events.GetNextPageToken() == "" {
		t.Fatal(events, err)
	}
	cause := events.GetEvents()[0].GetCauses()[0]
	if cause.GetCause() != "mode change" || cause.GetControlServer() != "a" || cause.GetFrom() != "normal" || cause.GetTo() != "draining" || cause.GetActor() != "anna" ||
		events.GetEvents()[0].GetPrimariesMoved() != 2 || events.GetEvents()[0].GetAgents() != 4 || events.GetEvents()[0].GetAt() == nil {
		t.Fatal(events)
	}
	older, err := c.cloud.ListPartitionEvents(t.Context(), &registryv1.ListPartitionEventsRequest{PageSize: 1, PageToken: events.GetNextPageToken()})
	if err != nil || older.GetEvents()[0].GetEpoch() != events.GetEvents()[0].GetEpoch()-1 {
		t.Fatal(older, err)
	}
	_, err = c.cloud.ListPartitionEvents(t.Context(), &registryv1.ListPartitionEventsRequest{StartAt: timestamppb.Now(), PageToken: events.GetNextPageToken()})
	refused(t, err, fault.InvalidArgument, "/pageToken")
	remove := &registryv1.RemoveControlServerRequest{Name: "a", Etag: a.GetEtag(), Actor: "anna"}
	_, err = c.cloud.RemoveControlServer(t.Context(), remove)
	refused(t, err, fault.InUse, "still has 3 agents")
	last := renewal("a")
	last.AgentsConnected = 0
	if _, err := c.cloud.RenewControlServer(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if _, err := c.cloud.RemoveControlServer(t.Context(), remove); err != nil || len(c.overview(t).GetServers()) != 1 {
		t.Fatal(err)
	}
	if _, err := c.cloud.LeaveCloud(t.Context(), &registryv1.LeaveCloudRequest{Name: "b", GrpcEndpoint: "b:8443"}); err != nil {
		t.Fatal(err)
	}
	if got := c.control(t, "b").GetState(); got != registryv1.ControlServerState_CONTROL_SERVER_STATE_SUSPECT {
		t.Fatal(got)
	}
}

func TestI17_RenewalsAreRefusedWithTheHolderOrTheField(t *testing.T) {
	c := serve(t)
	c.join(t, "a")
	for _, row := range []struct {
		change func(*registryv1.RenewControlServerRequest)
		reason fault.Reason
		says   string
	}{
		{func(r *registryv1.RenewControlServerRequest) { r.Name = "A" }, fault.NameTaken, `control server "a" is at a:8443, https://a`},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = "A:8443" }, fault.EndpointTaken, `control server "a" is at a:8443`},
		{func(r *registryv1.RenewControlServerRequest) { r.RestEndpoint = "https://a" }, fault.EndpointTaken, `control server "a" is at https://a`},
		{func(r *registryv1.RenewControlServerRequest) { r.ProtocolMin, r.ProtocolMax = 3, 4 }, fault.ProtocolsApart, `"a" speaks protocol versions 1 to 2 and this one 3 to 4`},
		{func(r *registryv1.RenewControlServerRequest) { r.ProtocolMin, r.ProtocolMax = 2, 1 }, fault.InvalidArgument, "/protocolMin"},
		{func(r *registryv1.RenewControlServerRequest) { r.ProtocolMin = 0 }, fault.InvalidArgument, "/protocolMin"},
		{func(r *registryv1.RenewControlServerRequest) { r.Name = " " }, fault.InvalidArgument, "/name"},
		{func(r *registryv1.RenewControlServerRequest) { r.Name = "" }, fault.InvalidArgument, "/name"},
		{func(r *registryv1.RenewControlServerRequest) { r.AgentsConnected = -1 }, fault.InvalidArgument, "/agentsConnected"},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = "new" }, fault.InvalidArgument, "/grpcEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = ":8443" }, fault.InvalidArgument, "/grpcEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = "new:0" }, fault.InvalidArgument, "/grpcEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = "new:99999" }, fault.InvalidArgument, "/grpcEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.GrpcEndpoint = "n w:1" }, fault.InvalidArgument, "/grpcEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.RestEndpoint = "new:8443" }, fault.InvalidArgument, "/restEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.RestEndpoint = "https://u:p@new" }, fault.InvalidArgument, "/restEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.RestEndpoint = "https://" }, fault.InvalidArgument, "/restEndpoint"},
		{func(r *registryv1.RenewControlServerRequest) { r.RestEndpoint = "https://new:99999" }, fault.InvalidArgument, "/restEndpoint"},
	} {
		asking := renewal("new")
		row.change(asking)
		_, err := c.cloud.RenewControlServer(t.Context(), asking)
		refused(t, err, row.reason, row.says)
	}
	if got := c.overview(t).GetServers(); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestI17_ChangesOfTheCloudAreRefusedByName(t *testing.T) {
	c := serve(t)
	c.record(t, beats("BM-1"))
	c.join(t, "a", "b")
	etag := c.control(t, "a").GetEtag()
	created, err := c.cloud.CreateAffinityGroup(t.Context(), &registryv1.CreateAffinityGroupRequest{Name: "East", Agents: []string{"bm-1"}, ControlServers: []string{"A"}, Actor: "anna"})
	if err != nil || created.GetGroup().GetAgents() != 1 || !slices.Equal(created.GetGroup().GetControlServers(), []string{"a"}) || created.GetGroup().GetWarning() != "" {
		t.Fatal(created, err)
	}
	stale, etag, group := etag, c.control(t, "a").GetEtag(), created.GetGroup().GetEtag()
	server := func(name, etag string, change func(*registryv1.UpdateControlServerRequest)) error {
		request := &registryv1.UpdateControlServerRequest{Name: name, Etag: etag, Actor: "anna"}
		change(request)
		_, err := c.cloud.UpdateControlServer(t.Context(), request)
		return err
	}
	nothing := func(*registryv1.UpdateControlServerRequest) {}
	regroup := func(name, etag string, change func(*registryv1.UpdateAffinityGroupRequest)) error {
		request := &registryv1.UpdateAffinityGroupRequest{Name: name, Etag: etag, Actor: "anna"}
		change(request)
		_, err := c.cloud.UpdateAffinityGroup(t.Context(), request)
		return err
	}
	remove := func(name, etag string) error {
		_, err := c.cloud.RemoveControlServer(t.Context(), &registryv1.RemoveControlServerRequest{Name: name, Etag: etag, Actor: "anna"})
		return err
	}
	drop := func(name, etag string) error {
		_, err := c.cloud.DeleteAffinityGroup(t.Context(), &registryv1.DeleteAffinityGroupRequest{Name: name, Etag: etag, Actor: "anna"})
		return err
	}
	create := func(request *registryv1.CreateAffinityGroupRequest) error {
		request.Actor = "anna"
		_, err := c.cloud.CreateAffinityGroup(t.Context(), request)
		return err
	}
	refused(t, server("z", etag, nothing), fault.ControlServerNotFound, `"z"`)
	refused(t, server("a", "", nothing), fault.EtagRequired, "")
	if found := refused(t, server("a", stale, nothing), fault.StaleEtag, ""); found.CurrentEtag != etag {
		t.Error(found)
	}
	refused(t, server("a", etag, func(r *registryv1.UpdateControlServerRequest) { r.Weight = new(int32(0)) }), fault.InvalidArgument, "/weight")
	refused(t, server("a", etag, func(r *registryv1.UpdateControlServerRequest) { r.Mode = 9 }), fault.InvalidArgument, "/mode")
	refused(t, server("a", etag, func(r *registryv1.UpdateControlServerRequest) { r.Actor = "" }), fault.InvalidArgument, "/actor")
	refused(t, server("a", etag, func(r *registryv1.UpdateControlServerRequest) { r.AffinityGroup = new("west") }), fault.GroupNotFound, `"west"`)
	refused(t, remove("z", etag), fault.ControlServerNotFound, `"z"`)
	refused(t, remove("a", ""), fault.EtagRequired, "")
	refused(t, remove("a", stale), fault.StaleEtag, "")
	refused(t, remove("a", etag), fault.InUse, `"a" is normal; put it into maintenance first`)
	refused(t, drop("west", group), fault.GroupNotFound, `"west"`)
	refused(t, drop("east", ""), fault.EtagRequired, "")
	refused(t, drop("east", "1-9"), fault.StaleEtag, "")
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "EAST"}), fault.NameTaken, `affinity group "East"`)
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "west", Agents: []string{"BM-1", "BM-9"}}), fault.AgentNotFound, `"BM-9"`)
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "west", Agents: []string{"BM-1", " "}}), fault.InvalidArgument, "/agents/1")
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "west", ControlServers: []string{"z"}}), fault.ControlServerNotFound, `"z"`)
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "west", ControlServers: []string{""}}), fault.InvalidArgument, "/controlServers/0")
	refused(t, create(&registryv1.CreateAffinityGroupRequest{Name: "\t"}), fault.InvalidArgument, "/name")
	refused(t, regroup("west", group, func(*registryv1.UpdateAffinityGroupRequest) {}), fault.GroupNotFound, `"west"`)
	refused(t, regroup("east", "1-9", func(*registryv1.UpdateAffinityGroupRequest) {}), fault.StaleEtag, "")
	refused(t, regroup("east", group, func(r *registryv1.UpdateAffinityGroupRequest) {
		r.AddAgents, r.RemoveAgents = []string{"BM-1"}, []string{"bm-1"}
	}), fault.InvalidArgument, "/removeAgents/0")
	refused(t, regroup("east", group, func(r *registryv1.UpdateAffinityGroupRequest) {
		r.AddControlServers, r.RemoveControlServers = []string{"a", "b"}, []string{"B"}
	}), fault.InvalidArgument, "/removeControlServers/0")
	refused(t, regroup("east", group, func(r *registryv1.UpdateAffinityGroupRequest) { r.NewName = new(" ") }), fault.InvalidArgument, "/newName")
	_, err = c.cloud.GetFailoverList(t.Context(), &registryv1.GetFailoverListRequest{Agent: "BM-9"})
	refused(t, err, fault.AgentNotFound, `"BM-9"`)
	_, err = c.cloud.LeaveCloud(t.Context(), &registryv1.LeaveCloudRequest{Name: "\t", GrpcEndpoint: "a:1"})
	refused(t, err, fault.InvalidArgument, "/name")
	groups, err := c.cloud.ListAffinityGroups(t.Context(), &registryv1.ListAffinityGroupsRequest{})
	if err != nil || len(groups.GetGroups()) != 1 || groups.GetGroups()[0].GetEtag() != group || c.control(t, "a").GetEtag() != etag {
		t.Fatal("something was changed: ", groups, err)
	}
}

func TestGroupsAndWarningsAreShown(t *testing.T) {
	c, raw := onFile(t)
	c.record(t, beats("BM-1"))
	c.join(t, "a", "b")
	other := renewal("b")
	other.Version = "1.1"
	if answer, err := c.cloud.RenewControlServer(t.Context(), other); err != nil || !strings.Contains(fmt.Sprint(answer.GetWarnings()), "1.0 (a); 1.1 (b)") {
		t.Fatal(answer, err)
	}
	created, err := c.cloud.CreateAffinityGroup(t.Context(), &registryv1.CreateAffinityGroupRequest{Name: "east", Agents: []string{"BM-1"}, Actor: "anna"})
	if err != nil || !strings.Contains(created.GetGroup().GetWarning(), "spread over all") {
		t.Fatal(created, err)
	}
	if got := c.read(t, "BM-1").GetAffinityGroup(); got != "east" {
		t.Fatal(got)
	}
	list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || list.GetAgents()[0].GetAffinityGroup() != "east" {
		t.Fatal(list, err)
	}
	if got := fmt.Sprint(c.overview(t).GetWarnings()); !strings.Contains(got, "different versions") || !strings.Contains(got, `affinity group "east" has no control server`) {
		t.Fatal(got)
	}
	updated, err := c.cloud.UpdateAffinityGroup(t.Context(), &registryv1.UpdateAffinityGroupRequest{
		Name: "EAST", Etag: created.GetGroup().GetEtag(), NewName: new("East"), AddControlServers: []string{"a"}, Actor: "anna",
	})
	if err != nil || updated.GetGroup().GetName() != "East" || updated.GetGroup().GetWarning() != "" || c.control(t, "a").GetAffinityGroup() != "East" {
		t.Fatal(updated, err)
	}
	if _, err := raw.ExecContext(t.Context(), `UPDATE TblControlServer SET Listed = 1, RenewedAt = '2026-01-02T03:04:05.000Z'`); err != nil {
		t.Fatal(err)
	}
	if got := c.overview(t); got.GetFrozenSince() == nil || !strings.Contains(fmt.Sprint(got.GetWarnings()), "evictions are held since 2026-01-02T03:04:20Z") {
		t.Fatal(got)
	}
	if _, err := c.cloud.DeleteAffinityGroup(t.Context(), &registryv1.DeleteAffinityGroupRequest{Name: "east", Etag: updated.GetGroup().GetEtag(), Actor: "anna"}); err != nil || c.read(t, "BM-1").GetAffinityGroup() != "" {
		t.Fatal(err)
	}
}

// A registry that starts again knows the lists before it serves.
func TestI16_ListsSurviveARestart(t *testing.T) {
	path := t.TempDir() + "/fleet.db"
	onPath := func(cfg *registry.Config) { cfg.Database.URL = config.Secret("sqlite:" + path) }
	var before []string
	t.Run("before", func(t *testing.T) {
		c := serve(t, hasty, onPath)
		c.record(t, beats("BM-1"))
		c.join(t, "a", "b", "c")
		until(t, "all are listed", func() bool { before = c.listOf(t, "BM-1"); return len(before) == 3 })
	})
	c := serve(t, onPath)
	if after := c.listOf(t, "BM-1"); len(before) == 0 || !slices.Equal(after, before) {
		t.Fatalf("%v, before %v", after, before)
	}
}
