package rpc

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// A registry from before there was a cloud of control servers is named as older; nothing was changed.
func TestARegistryWithoutACloudIsOlder(t *testing.T) {
	s := newSetup(t, nil) // serves agents only
	_, read := s.cloud.ListControlServers(s.ctx, &operatorv1.ListControlServersRequest{})
	_, list := s.cloud.GetFailoverList(s.ctx, &operatorv1.GetFailoverListRequest{Agent: "BM-1"})
	_, change := s.cloud.DeleteAffinityGroup(s.ctx, &operatorv1.DeleteAffinityGroupRequest{Group: "west", Etag: "g-0"})
	_, reset := s.agents.ResetToken(s.ctx, &operatorv1.ResetTokenRequest{Agent: "BM-1", Etag: "1-0"})
	for _, err := range []error{read, list, change, reset} {
		if found := fault.From(err); found == nil || found.Reason != fault.RegistryUnavailable || !strings.Contains(found.Detail, "older than this gateway") {
			t.Errorf("%v", err)
		}
	}
	if strings.Count(s.audit.String(), "outcome=REGISTRY_UNAVAILABLE") != 2 {
		t.Errorf("audit lines: %s", s.audit)
	}
}

// What was asked and not answered may be done, and is told with what it was about.
func TestI3_AChangeOfTheCloudWithoutAnAnswerMayBeDone(t *testing.T) {
	for _, row := range []struct {
		what act
		want string
	}{
		{(&Cloud{}).act("remove control server", "cs-1"), `remove control server "cs-1"`},
		{(&Cloud{}).actOnGroup("delete affinity group", "west", groupFields), `delete affinity group "west"`},
		{(&Agents{}).act("reset token of agent", "BM-1"), `reset token of agent "BM-1"`},
	} {
		found := fault.From(row.what.by.changed(status.Error(codes.DeadlineExceeded, "late"), row.what, true))
		if found.Reason != fault.OutcomeUnknown || !strings.Contains(found.Detail, row.want) || !strings.Contains(found.Detail, "may be done or not") {
			t.Errorf("%v", found)
		}
	}
}

func TestI17_FieldsOfGroupsAreNamedAsCallersKnowThem(t *testing.T) {
	both := fault.New(fault.InvalidArgument, "/newName: is long; /name: is odd; nothing was changed").WithField("/newName", "is long").WithField("/name", "is odd")
	for _, row := range []struct {
		name     string
		fields   renaming
		err      error
		pointers []string
		detail   string
	}{
		{"present name", groupFields, fault.Invalid("/name", "is odd"), []string{"/group"}, "/group: is odd; nothing was changed"},
		{"new name", groupFields, fault.Invalid("/newName", "is odd"), []string{"/name"}, "/name: is odd; nothing was changed"},
		{"both", groupFields, both, []string{"/name", "/group"}, "/name: is long; /group: is odd; nothing was changed"},
		{"another field", groupFields, fault.Invalid("/addAgents/3", "is odd"), []string{"/addAgents/3"}, "/addAgents/3: is odd; nothing was changed"},
		{"a text of its own", agentFields, fault.New(fault.InvalidArgument, "no").WithField("/name", "is odd"), []string{"/agent"}, "no"},
		{"nothing to rename", nil, fault.Invalid("/name", "is odd"), []string{"/name"}, "/name: is odd; nothing was changed"},
	} {
		found := fault.From(row.fields.of(fault.From(row.err).GRPCStatus().Err())) // as it comes from the registry
		var pointers []string
		for _, field := range found.Fields {
			pointers = append(pointers, field.Pointer)
		}
		if !slices.Equal(pointers, row.pointers) || found.Detail != row.detail || found.Reason != fault.InvalidArgument {
			t.Errorf("%s: %v %q", row.name, pointers, found.Detail)
		}
	}
	unknown := status.Error(codes.Unimplemented, "unknown method")
	if got := groupFields.of(unknown); !errors.Is(got, unknown) {
		t.Errorf("what is not about a field became %v", got)
	}
	if groupFields.of(nil) != nil {
		t.Error("no error became one")
	}
}
