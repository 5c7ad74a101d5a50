package operatorgateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// fakeRegistry keeps agents in memory by the registry's rules, as far as these tests go: names in any case, etags, decisions.
type fakeRegistry struct {
	registryv1.UnimplementedAgentRegistryServer
	registryv1.UnimplementedServerCatalogServer
	addr   string
	health *grpchealth.Server
	cloud  *fakeCloud

	mu      sync.Mutex
	agents  map[string]*registryv1.Agent // by name in lower case
	changes int
}

func startRegistry(t *testing.T, agents ...*registryv1.Agent) *fakeRegistry {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r := &fakeRegistry{addr: listener.Addr().String(), health: grpchealth.NewServer(), cloud: newCloud(), agents: map[string]*registryv1.Agent{}}
	for _, agent := range agents {
		agent.Etag = "1-0"
		r.agents[strings.ToLower(agent.GetName())] = agent
	}
	server := grpc.NewServer()
	registryv1.RegisterAgentRegistryServer(server, r)
	registryv1.RegisterServerCatalogServer(server, r)
	registryv1.RegisterControlCloudServer(server, r.cloud)
	healthv1.RegisterHealthServer(server, r.health)
	r.serving(true)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return r
}

func (r *fakeRegistry) serving(yes bool) {
	state := healthv1.HealthCheckResponse_SERVING
	if !yes {
		state = healthv1.HealthCheckResponse_NOT_SERVING
	}
	r.health.SetServingStatus(registryv1.AgentRegistry_ServiceDesc.ServiceName, state)
}

func (r *fakeRegistry) find(name string) (*registryv1.Agent, error) {
	if agent, ok := r.agents[strings.ToLower(name)]; ok {
		return agent, nil
	}
	return nil, fault.New(fault.AgentNotFound, "there is no agent %q", name)
}

// GetAgent reads one agent.
func (r *fakeRegistry) GetAgent(_ context.Context, request *registryv1.GetAgentRequest) (*registryv1.GetAgentResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	agent, err := r.find(request.GetName())
	return &registryv1.GetAgentResponse{Agent: proto.CloneOf(agent)}, err
}

// ListAgents lists those in the states asked for.
func (r *fakeRegistry) ListAgents(_ context.Context, request *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	response := &registryv1.ListAgentsResponse{}
	for _, agent := range r.agents {
		for _, state := range request.GetStates() {
			if agent.GetRegistrationState() == state {
				response.Agents = append(response.Agents, proto.CloneOf(agent))
			}
		}
	}
	return response, nil
}

// decide checks an etag as the registry does, and makes the next one.
func (r *fakeRegistry) decide(name, etag, actor string, state registryv1.RegistrationState) (*registryv1.Agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	agent, err := r.find(name)
	switch {
	case err != nil:
		return nil, err
	case etag == "":
		return nil, fault.New(fault.EtagRequired, "an etag is required").WithEtag(agent.GetEtag())
	case etag != agent.GetEtag():
		return nil, fault.New(fault.StaleEtag, "it was changed meanwhile").WithEtag(agent.GetEtag())
	case state == agent.GetRegistrationState():
		return nil, fault.New(fault.AlreadyDecided, "it is so already")
	}
	r.changes++
	agent.Etag, agent.DecidedBy, agent.RegistrationState = fmt.Sprintf("1-%d", r.changes), actor, state
	return proto.CloneOf(agent), nil
}

// AcceptAgent accepts an agent, if the server has its name.
func (r *fakeRegistry) AcceptAgent(_ context.Context, request *registryv1.AcceptAgentRequest) (*registryv1.AcceptAgentResponse, error) {
	if server := request.GetServerName(); server != "" && !strings.EqualFold(server, request.GetName()) {
		return nil, fault.New(fault.NameMismatch, "the names differ")
	}
	agent, err := r.decide(request.GetName(), request.GetEtag(), request.GetActor(), registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED)
	return &registryv1.AcceptAgentResponse{Agent: agent}, err
}

// RejectAgent rejects an agent.
func (r *fakeRegistry) RejectAgent(_ context.Context, request *registryv1.RejectAgentRequest) (*registryv1.RejectAgentResponse, error) {
	agent, err := r.decide(request.GetName(), request.GetEtag(), request.GetActor(), registryv1.RegistrationState_REGISTRATION_STATE_REJECTED)
	return &registryv1.RejectAgentResponse{Agent: agent}, err
}

// ResetToken forgets an agent's token, unless that was done.
func (r *fakeRegistry) ResetToken(_ context.Context, request *registryv1.ResetTokenRequest) (*registryv1.ResetTokenResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(request.GetName(), "\x01") {
		return nil, fault.Invalid("/name", "has control characters")
	}
	agent, err := r.find(request.GetName())
	if err != nil {
		return nil, err
	}
	if agent.GetClaimable() && request.GetEtag() == agent.GetEtag() {
		return nil, fault.New(fault.AlreadyDecided, "it may be claimed already")
	}
	if err := advance(request.GetEtag(), &agent.Etag, &r.changes); err != nil {
		return nil, err
	}
	agent.HasToken, agent.Claimable, agent.DecidedBy = false, true, request.GetActor()
	return &registryv1.ResetTokenResponse{Agent: proto.CloneOf(agent)}, nil
}

// advance checks an etag as our services do, and makes the next.
func advance(given string, now *string, changes *int) error {
	switch given {
	case "":
		return fault.New(fault.EtagRequired, "an etag is required").WithEtag(*now)
	case *now:
		*changes++
		*now = fmt.Sprintf("%c-%d", (*now)[0], *changes)
		return nil
	}
	return fault.New(fault.StaleEtag, "it was changed meanwhile").WithEtag(*now)
}

// ClaimHttpVerifications has nothing due.
func (r *fakeRegistry) ClaimHttpVerifications(context.Context, *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	return &registryv1.ClaimHttpVerificationsResponse{}, nil
}

// RecordHttpVerification notes what a ping showed.
func (r *fakeRegistry) RecordHttpVerification(_ context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	agent, err := r.find(request.GetName())
	if err != nil {
		return nil, err
	}
	agent.HttpVerification = &registryv1.HttpVerification{Outcome: request.GetOutcome(), Detail: request.GetDetail(), Age: durationpb.New(0)}
	return &registryv1.RecordHttpVerificationResponse{Recorded: true, Agent: proto.CloneOf(agent)}, nil
}

// change edits an agent behind the gateway's back.
func (r *fakeRegistry) change(name string, edit func(*registryv1.Agent)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit(r.agents[strings.ToLower(name)])
}

// fakeAgent is an agent's HTTP side that notes its commands.
type fakeAgent struct {
	*httptest.Server
	name string

	mu     sync.Mutex
	got    []*agentv1.Command
	answer func(context.Context, *agentv1.Command) *agentv1.CommandResult
}

func startAgent(t *testing.T, name string) *fakeAgent {
	t.Helper()
	a := &fakeAgent{name: name}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent/v1/ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"name": %q}`, a.name) })
	mux.HandleFunc("POST /agent/v1/commands", func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		command := &agentv1.Command{}
		if err := protojson.Unmarshal(content, command); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.got = append(a.got, command)
		answer := a.answer
		a.mu.Unlock()
		result := &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED}
		if answer != nil {
			result = answer(r.Context(), command)
		} else if command.GetListServices() != nil {
			result.Payload = &agentv1.CommandResult_Services{Services: &agentv1.Services{}}
		}
		result.CommandId, result.Agent = command.GetCommandId(), a.name
		content, _ = protojson.Marshal(result)
		_, _ = w.Write(content)
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// commands are those that came since the last time.
func (a *fakeAgent) commands() []*agentv1.Command {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	return got
}

func (a *fakeAgent) answering(answer func(context.Context, *agentv1.Command) *agentv1.CommandResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 30 * time.Second

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this did not come to be: ", what)
		}
	}
}
