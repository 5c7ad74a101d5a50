package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// silentRegistry answers nothing that it was not told to.
type silentRegistry struct {
	registryv1.UnimplementedAgentRegistryServer
	reject func(context.Context) error
}

func (r silentRegistry) RejectAgent(ctx context.Context, request *registryv1.RejectAgentRequest) (*registryv1.RejectAgentResponse, error) {
	return &registryv1.RejectAgentResponse{Agent: &registryv1.Agent{Name: request.GetName(), DecidedBy: request.GetActor()}}, r.reject(ctx)
}

func (r silentRegistry) GetAgent(ctx context.Context, _ *registryv1.GetAgentRequest) (*registryv1.GetAgentResponse, error) {
	return &registryv1.GetAgentResponse{}, r.reject(ctx)
}

func (r silentRegistry) AddAgent(ctx context.Context, _ *registryv1.AddAgentRequest) (*registryv1.AddAgentResponse, error) {
	return &registryv1.AddAgentResponse{}, r.reject(ctx)
}

type setup struct {
	agents *Agents
	cloud  *Cloud
	server *grpc.Server
	audit  *bytes.Buffer
	ctx    context.Context
}

func newSetup(t *testing.T, reject func(context.Context) error) *setup {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{server: grpc.NewServer(), audit: &bytes.Buffer{}}
	registryv1.RegisterAgentRegistryServer(s.server, silentRegistry{reject: reject})
	go func() { _ = s.server.Serve(listener) }()
	t.Cleanup(s.server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	registry, logger := Registry{Agents: registryv1.NewAgentRegistryClient(conn), Cloud: registryv1.NewControlCloudClient(conn)}, slog.New(slog.NewTextHandler(s.audit, nil))
	s.agents, s.cloud = &Agents{Registry: registry, Logger: logger}, &Cloud{Registry: registry, Logger: logger}
	s.ctx = authn.WithPrincipal(t.Context(), authn.Principal{Name: "alice"})
	return s
}

// errLost stands for a connection that is lost while the registry works.
var errLost = errors.New("lost")

func TestAChangeWithoutAnAnswer(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer error
		want   fault.Reason
	}{
		{"done", nil, ""},
		{"refused for a reason", fault.New(fault.AlreadyDecided, "it is rejected already"), fault.AlreadyDecided},
		{"the database is down, the registry says", fault.New(fault.RegistryUnavailable, "no database"), fault.RegistryUnavailable},
		{"timed out in the registry", fault.From(context.DeadlineExceeded), fault.OutcomeUnknown},
		{"timed out on the way", status.Error(codes.DeadlineExceeded, "late"), fault.OutcomeUnknown},
		{"connection lost under way", errLost, fault.OutcomeUnknown},
		{"our own credential is bad", fault.New(fault.Unauthenticated, "who?"), fault.RegistryUnavailable},
		{"our own role is wrong", fault.New(fault.PermissionDenied, "no"), fault.RegistryUnavailable},
		{"an older registry", status.Error(codes.Unimplemented, "unknown method"), fault.RegistryUnavailable},
		{"a broken answer", status.Error(codes.Internal, "stream ended"), fault.OutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSetup(t, func(context.Context) error { return row.answer })
			if errors.Is(row.answer, errLost) {
				s = newLostSetup(t)
			}
			agent, err := s.agents.RejectAgent(s.ctx, &operatorv1.RejectAgentRequest{Agent: "BM-1", Etag: "7-1"})
			found := fault.From(err)
			switch {
			case row.want == "" && (err != nil || agent.GetDecidedBy() != "alice"):
				t.Fatalf("%v %v", agent, err)
			case row.want != "" && (found == nil || found.Reason != row.want || found.Agent != "BM-1"):
				t.Fatalf("%#v", err)
			}
			if found != nil && found.Reason == fault.OutcomeUnknown && !strings.Contains(found.Detail, "may be done or not") {
				t.Errorf("does not say that it may be done: %s", found.Detail)
			}
			outcome := "outcome=done"
			if found != nil {
				outcome = "outcome=" + string(row.want)
			}
			line := s.audit.String()
			if strings.Count(line, "audit: decision") != 1 || !strings.Contains(line, outcome) || !strings.Contains(line, "principal=alice") || !strings.Contains(line, "agent=BM-1") {
				t.Errorf("audit line: %s", line)
			}
		})
	}
}

// newLostSetup has a registry that takes the request and goes away.
func newLostSetup(t *testing.T) *setup {
	t.Helper()
	var s *setup
	began := make(chan struct{})
	s = newSetup(t, func(ctx context.Context) error {
		close(began)
		<-ctx.Done() // the connection is closed
		return ctx.Err()
	})
	go func() { <-began; s.server.Stop() }()
	return s
}

func TestAChangeThatReachedNobodyChangedNothing(t *testing.T) {
	s := newSetup(t, nil)
	s.server.Stop()
	_, err := s.agents.RejectAgent(s.ctx, &operatorv1.RejectAgentRequest{Agent: "BM-1", Etag: "7-1"})
	if found := fault.From(err); found == nil || found.Reason != fault.RegistryUnavailable || !strings.Contains(found.Detail, "nothing was changed") {
		t.Errorf("%v", err)
	}
	_, err = s.agents.GetAgent(s.ctx, &operatorv1.GetAgentRequest{Agent: "BM-1"})
	if found := fault.From(err); found == nil || found.Reason != fault.RegistryUnavailable || found.Agent != "BM-1" {
		t.Errorf("%v", err)
	}
}

// Whether or not its caller stays, a change is carried through, and its audit line tells how it ended.
func TestAChangeOutlivesItsCaller(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s := newSetup(t, func(ctx context.Context) error {
		close(began)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := s.agents.RejectAgent(ctx, &operatorv1.RejectAgentRequest{Agent: "BM-1", Etag: "7-1"})
		ended <- err
	}()
	<-began
	cancel()
	close(release)
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(s.audit.String(), "outcome=done") {
			t.Errorf("%v: %s", err, s.audit)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the change did not end")
	}
}

// The registry's field is pointed at by the name that our callers know it by: an agent's is in the path, and that of a new one in the body.
func TestI17_FieldsAreNamedAsCallersKnowThem(t *testing.T) {
	s := newSetup(t, func(context.Context) error { return fault.Invalid("/name", "has control characters") })
	_, read := s.agents.GetAgent(s.ctx, &operatorv1.GetAgentRequest{Agent: "a\x00"})
	_, change := s.agents.RejectAgent(s.ctx, &operatorv1.RejectAgentRequest{Agent: "a\x00"})
	for _, err := range []error{read, change} {
		if found := fault.From(err); found == nil || len(found.Fields) != 1 || found.Fields[0].Pointer != "/agent" || strings.Contains(found.Detail, "/name") {
			t.Errorf("%v", err)
		}
	}
	_, err := s.agents.AddAgent(s.ctx, &operatorv1.AddAgentRequest{Name: "a\x00"})
	if found := fault.From(err); found == nil || len(found.Fields) != 1 || found.Fields[0].Pointer != "/name" {
		t.Errorf("%v", err)
	}
}
