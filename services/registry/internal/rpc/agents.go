package rpc

import (
	"context"
	"strings"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/registry/internal/bindings"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Agents implements registry.v1.AgentRegistry.
type Agents struct {
	registryv1.UnimplementedAgentRegistryServer
	Store   *store.Store
	Metrics *Metrics
	Lists   Lists // nil: no direct agent is given a list
	// Returns is how long agents that live may be away, and which control servers are silent; nil: it is not told.
	Returns func() (cloud.Returns, cloud.Displacement)
}

const defaultMaxHeartbeatAge = 90 * time.Second

// GetAgent reads one agent.
func (s *Agents) GetAgent(ctx context.Context, request *registryv1.GetAgentRequest) (*registryv1.GetAgentResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, health, err := s.Store.Agent(ctx, name, enrollment.Bus)
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.GetAgentResponse{Agent: agentMessage(agent), BusIngest: healthMessage(registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, health)}, nil
}

// ListAgents reads a page of agents.
func (s *Agents) ListAgents(ctx context.Context, request *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	maxAge, err := duration("/maxHeartbeatAge", request.GetMaxHeartbeatAge(), defaultMaxHeartbeatAge, time.Millisecond)
	if err != nil {
		return nil, err
	}
	order, err := paging.ParseOrder(request.GetOrderBy(), "name", "name", "state", "last_heartbeat", "created", "hostname", "version", "control_server")
	if err != nil {
		return nil, err
	}
	unseenFor, err := duration("/unseenFor", request.GetUnseenFor(), 0, time.Millisecond)
	if err != nil {
		return nil, err
	}
	filter := store.Filter{
		Transport: -1, Freshness: int(request.GetFreshness()), MaxAge: maxAge, Linked: choice(request.Linked), Astray: choice(request.Astray) + 1, Query: request.GetQuery(),
		UnseenFor: unseenFor, Version: request.GetAgentVersion(), Primary: spelling.Fold(strings.TrimSpace(request.GetControlServer())), Sort: order.By, Descending: order.Descending,
	}
	if request.Transport != nil {
		filter.Transport = int(request.GetTransport())
	}
	for _, state := range request.GetStates() {
		filter.States = append(filter.States, enrollment.State(state))
	}
	limit, after, err := page(request.GetPageSize(), request.GetPageToken(), filter)
	if err != nil {
		return nil, err
	}
	agents, next, total, err := s.Store.Agents(ctx, filter, limit, after)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ListAgentsResponse{Total: int32(total)}
	for _, agent := range agents {
		response.Agents = append(response.Agents, agentMessage(agent))
	}
	response.NextPageToken, err = nextPage(next, filter)
	return response, err
}

// choice is -1 for any, 0 for no, 1 for yes.
func choice(given *bool) int {
	switch {
	case given == nil:
		return -1
	case *given:
		return 1
	}
	return 0
}

// RecordHttpVerification stores what a ping, or a failed connection, showed.
func (s *Agents) RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, recorded, err := s.Store.RecordVerification(ctx, name, store.Verification{
		BaseURL: request.GetHttpBaseUrl(), Outcome: int(request.GetOutcome()), Detail: request.GetDetail(), Age: request.GetAge().AsDuration(),
	})
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.RecordHttpVerificationResponse{Recorded: recorded, Agent: agentMessage(agent)}, nil
}

// ReportCommandAnswer notes whether a command over the bus was answered.
func (s *Agents) ReportCommandAnswer(ctx context.Context, request *registryv1.ReportCommandAnswerRequest) (*registryv1.ReportCommandAnswerResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Store.ReportAnswer(ctx, name, request.GetAnswered(), request.GetSentAge().AsDuration()); err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.ReportCommandAnswerResponse{}, nil
}

// ClaimHttpVerifications hands out verifications to repeat.
func (s *Agents) ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	repeat, err := duration("/repeatInterval", request.GetRepeatInterval(), 6*time.Hour, time.Second)
	if err != nil {
		return nil, err
	}
	claim, err := duration("/claimTimeout", request.GetClaimTimeout(), time.Minute, time.Second)
	if err != nil {
		return nil, err
	}
	limit := int(request.GetLimit())
	if limit == 0 {
		limit = 20
	}
	agents, err := s.Store.ClaimVerifications(ctx, repeat, claim, limit)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ClaimHttpVerificationsResponse{}
	for _, agent := range agents {
		response.Agents = append(response.Agents, agentMessage(agent))
	}
	return response, nil
}

// ListUrlProposals derives URLs from the bindings an agent reported.
func (s *Agents) ListUrlProposals(ctx context.Context, request *registryv1.ListUrlProposalsRequest) (*registryv1.ListUrlProposalsResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	reported, hostname, err := s.Store.Bindings(ctx, name)
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	response := &registryv1.ListUrlProposalsResponse{Reported: reported != nil}
	for _, proposal := range bindings.Propose(reported, hostname) {
		response.Proposals = append(response.Proposals, proposalMessage(proposal))
	}
	return response, nil
}

func pathOf(path registryv1.HeartbeatPath) (enrollment.Path, error) {
	switch path {
	case registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS:
		return enrollment.Bus, nil
	case registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT:
		return enrollment.Direct, nil
	}
	return 0, fault.Invalid("/path", "must be bus or direct")
}
