package rpc

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
)

// Operations implements operator.v1.AgentOperations.
type Operations struct {
	operatorv1.UnimplementedAgentOperationsServer
	Registry Registry
	Verdicts *Verdicts
	Executor *command.Executor
	// Stopping is closed when the gateway begins to stop: batches start no more then.
	Stopping <-chan struct{}
}

// ListAgents lists the agents that may be addressed, each with where its next command would go.
func (s *Operations) ListAgents(ctx context.Context, request *operatorv1.ListAgentsRequest) (*operatorv1.ListAgentsResponse, error) {
	askedAt := time.Now()
	page, err := s.Registry.Agents.ListAgents(ctx, &registryv1.ListAgentsRequest{
		States: []registryv1.RegistrationState{registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED},
		Query:  request.GetQuery(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(), OrderBy: request.GetOrderBy(),
		UnseenFor: request.GetUnseenFor(), AgentVersion: request.GetAgentVersion(), ControlServer: request.GetControlServer(),
	})
	if err != nil {
		return nil, registryService.read(err, "")
	}
	verdicts := s.Verdicts.of(ctx, page.GetAgents())
	response := &operatorv1.ListAgentsResponse{NextPageToken: page.GetNextPageToken(), Total: page.GetTotal()}
	for _, agent := range page.GetAgents() {
		decision := routing.Decide(routing.FromRegistry(agent, nil, time.Since(askedAt)), false, s.Executor.Policy)
		response.Agents = append(response.Agents, &operatorv1.AddressableAgent{
			Name: agent.GetName(), Hostname: agent.GetHostname(), Transport: transport(decision.Transport), Refusal: string(decision.Refusal),
			HeartbeatAge: youngest(agent.GetBusHeartbeatAge(), agent.GetDirectHeartbeatAge()), Server: agent.GetServer(), AgentVersion: agent.GetAgentVersion(),
			Availability: verdicts[agent.GetServer().GetServerKey()], Problems: agent.GetProblems(), ReceiverSuspect: receiverSuspect(agent),
		})
	}
	return response, nil
}

// receiverSuspect reports whether an agent on Service Bus seems to take no commands there.
func receiverSuspect(agent *registryv1.Agent) bool {
	return agent.GetOnServiceBus() && agent.GetCommandReceiver().GetSuspect()
}

func receiverWarning(receiver *registryv1.CommandReceiver) string {
	last := "none was ever answered"
	if receiver.GetAnsweredAge() != nil {
		last = fmt.Sprintf("the last answer came %s ago", receiver.GetAnsweredAge().AsDuration().Round(time.Second))
	}
	return fmt.Sprintf("the last %d commands over Service Bus were not answered, and %s: the agent's receiver may be dead though its heartbeats come. "+
		"A command is sent all the same, and may wait for its whole budget; a read that is answered ends this. If none is, restart the agent on its machine",
		receiver.GetUnanswered(), last)
}

func youngest(a, b *durationpb.Duration) *durationpb.Duration {
	if a == nil || (b != nil && b.AsDuration() < a.AsDuration()) {
		return b
	}
	return a
}

func transport(t routing.Transport) registryv1.Transport {
	return [...]registryv1.Transport{
		routing.None:       registryv1.Transport_TRANSPORT_UNSPECIFIED,
		routing.ServiceBus: registryv1.Transport_TRANSPORT_SERVICE_BUS,
		routing.HTTP:       registryv1.Transport_TRANSPORT_HTTP,
	}[t]
}

// GetRoute explains where the next command would go, and sends nothing.
func (s *Operations) GetRoute(ctx context.Context, request *operatorv1.GetRouteRequest) (*operatorv1.GetRouteResponse, error) {
	askedAt := time.Now()
	known, err := s.Registry.GetAgent(ctx, request.GetAgent())
	if err != nil && fault.From(err).Reason != fault.AgentNotFound {
		return nil, err
	}
	facts := routing.Agent{Name: request.GetAgent()}
	if err == nil {
		facts = routing.FromRegistry(known.GetAgent(), known.GetBusIngest(), time.Since(askedAt))
	}
	policy := s.Executor.Policy
	decision, verdicts := routing.Explain(facts, request.GetWrite(), policy)
	response := &operatorv1.GetRouteResponse{
		Agent: facts.Name, Transport: transport(decision.Transport), Refusal: string(decision.Refusal), Detail: decision.Detail, Rule: decision.Rule,
		BusHeartbeatAge: known.GetAgent().GetBusHeartbeatAge(), MaxHeartbeatAge: durationpb.New(policy.MaxHeartbeatAge),
		HttpBaseUrl: facts.HTTPBaseURL, HttpVerification: known.GetAgent().GetHttpVerification(), MaxVerificationAge: durationpb.New(policy.MaxVerificationAge),
		BusIngest: known.GetBusIngest(),
	}
	if known.GetAgent().GetOnServiceBus() {
		response.CommandReceiver = known.GetAgent().GetCommandReceiver()
	}
	if response.ReceiverSuspect = receiverSuspect(known.GetAgent()); response.ReceiverSuspect {
		response.Warning = receiverWarning(response.CommandReceiver)
	}
	for _, verdict := range verdicts {
		response.Rules = append(response.Rules, &operatorv1.RouteRule{
			Number: verdict.Number, Condition: verdict.Condition, Matched: verdict.Matched, Because: verdict.Because,
		})
	}
	return response, nil
}

// ask carries out a read.
func (s *Operations) ask(ctx context.Context, agent string, operation *agentv1.Command) (*agentv1.CommandResult, *operatorv1.ReadReceipt, error) {
	result, err := s.Executor.Execute(ctx, actor(ctx), agent, operation)
	return result.Answer, &operatorv1.ReadReceipt{
		Agent: result.Agent, CommandId: result.CommandID, Transport: transport(result.Transport), Fallback: result.Fallback,
	}, err
}

// do carries out a write.
func (s *Operations) do(ctx context.Context, agent string, operation *agentv1.Command) (*operatorv1.CommandResponse, error) {
	id, err := idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	operation.CommandId = id
	result, err := s.Executor.Execute(ctx, actor(ctx), agent, operation)
	if err != nil {
		return nil, err
	}
	return commandResponse(result), nil
}

func commandResponse(result command.Result) *operatorv1.CommandResponse {
	return &operatorv1.CommandResponse{
		Agent: result.Agent, CommandId: result.CommandID, Transport: transport(result.Transport), Fallback: result.Fallback,
		StartedAt: result.Answer.GetStartedAt(), Duration: result.Answer.GetDuration(), Changes: result.Answer.GetChanges().GetChanges(),
	}
}

// GetCommand reads what became of a command.
func (s *Operations) GetCommand(ctx context.Context, request *operatorv1.GetCommandRequest) (*operatorv1.GetCommandResponse, error) {
	id := cmp.Or(request.GetCommandId(), request.GetCommand()) //nolint:staticcheck // callers of the release before give it under the former name
	answer, receipt, err := s.ask(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_GetCommand{GetCommand: &agentv1.GetCommand{CommandId: id}}})
	if err != nil {
		return nil, err
	}
	return &operatorv1.GetCommandResponse{Record: answer.GetCommandRecord(), Receipt: receipt}, nil
}

// ListInstallations reads the installed products.
func (s *Operations) ListInstallations(ctx context.Context, request *operatorv1.ListInstallationsRequest) (*operatorv1.ListInstallationsResponse, error) {
	answer, receipt, err := s.ask(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_ListInstallations{ListInstallations: &agentv1.ListInstallations{}}})
	if err != nil {
		return nil, err
	}
	return &operatorv1.ListInstallationsResponse{Installations: answer.GetInstallations().GetInstallations(), Receipt: receipt}, nil
}

// Uninstall removes one installed product.
func (s *Operations) Uninstall(ctx context.Context, request *operatorv1.UninstallRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_Uninstall{Uninstall: &agentv1.Uninstall{Installation: request.GetInstallation()}}})
}

// ListServices reads the Windows services.
func (s *Operations) ListServices(ctx context.Context, request *operatorv1.ListServicesRequest) (*operatorv1.ListServicesResponse, error) {
	answer, receipt, err := s.ask(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_ListServices{ListServices: &agentv1.ListServices{}}})
	if err != nil {
		return nil, err
	}
	return &operatorv1.ListServicesResponse{Services: answer.GetServices().GetServices(), Receipt: receipt}, nil
}

// StartService starts one Windows service.
func (s *Operations) StartService(ctx context.Context, request *operatorv1.StartServiceRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_StartService{StartService: &agentv1.StartService{Service: request.GetService()}}})
}

// StopService stops one Windows service.
func (s *Operations) StopService(ctx context.Context, request *operatorv1.StopServiceRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_StopService{StopService: &agentv1.StopService{Service: request.GetService()}}})
}

// RestartService stops and starts one Windows service.
func (s *Operations) RestartService(ctx context.Context, request *operatorv1.RestartServiceRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_RestartService{RestartService: &agentv1.RestartService{Service: request.GetService()}}})
}

// ListAppPools reads the IIS application pools.
func (s *Operations) ListAppPools(ctx context.Context, request *operatorv1.ListAppPoolsRequest) (*operatorv1.ListAppPoolsResponse, error) {
	answer, receipt, err := s.ask(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_ListAppPools{ListAppPools: &agentv1.ListAppPools{}}})
	if err != nil {
		return nil, err
	}
	return &operatorv1.ListAppPoolsResponse{AppPools: answer.GetAppPools().GetAppPools(), Receipt: receipt}, nil
}

// StartAppPool starts one pool.
func (s *Operations) StartAppPool(ctx context.Context, request *operatorv1.StartAppPoolRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_StartAppPool{StartAppPool: &agentv1.StartAppPool{Pool: request.GetPool()}}})
}

// StopAppPool stops one pool.
func (s *Operations) StopAppPool(ctx context.Context, request *operatorv1.StopAppPoolRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_StopAppPool{StopAppPool: &agentv1.StopAppPool{Pool: request.GetPool()}}})
}

// RecycleAppPool recycles one pool.
func (s *Operations) RecycleAppPool(ctx context.Context, request *operatorv1.RecycleAppPoolRequest) (*operatorv1.CommandResponse, error) {
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_RecycleAppPool{RecycleAppPool: &agentv1.RecycleAppPool{Pool: request.GetPool()}}})
}

// ListCertificates reads the machine's certificates.
func (s *Operations) ListCertificates(ctx context.Context, request *operatorv1.ListCertificatesRequest) (*operatorv1.ListCertificatesResponse, error) {
	answer, receipt, err := s.ask(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_ListCertificates{ListCertificates: &agentv1.ListCertificates{}}})
	if err != nil {
		return nil, err
	}
	return &operatorv1.ListCertificatesResponse{Certificates: answer.GetCertificates().GetCertificates(), Receipt: receipt}, nil
}

// SyncPackages brings packages to a set.
func (s *Operations) SyncPackages(ctx context.Context, request *operatorv1.SyncPackagesRequest) (*operatorv1.CommandResponse, error) {
	set, err := wantedPackages(&agentv1.SyncPackages{Packages: request.GetPackages(), Wanted: request.GetWanted()}, "")
	if err != nil {
		return nil, err
	}
	return s.do(ctx, request.GetAgent(), &agentv1.Command{Operation: &agentv1.Command_SyncPackages{SyncPackages: set}})
}

// wantedPackages is the set as every agent knows it: wanted becomes packages. Prefix leads to the set's fields in the request.
func wantedPackages(set *agentv1.SyncPackages, prefix string) (*agentv1.SyncPackages, error) {
	switch {
	case set.GetWanted() == nil:
		return set, nil
	case len(set.GetPackages()) > 0:
		return nil, fault.Invalid(prefix+"/wanted", "cannot be combined with packages: give one of them")
	}
	return &agentv1.SyncPackages{Packages: set.GetWanted().GetPackages()}, nil
}
