package routing

import (
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

// FromRegistry reads what a decision rests on out of the registry's answer; elapsed is the time since it was read.
func FromRegistry(agent *registryv1.Agent, ingest *registryv1.IngestHealth, elapsed time.Duration) Agent {
	verification := agent.GetHttpVerification()
	facts := Agent{
		Name: agent.GetName(), State: State(agent.GetRegistrationState()), OnServiceBus: agent.GetOnServiceBus(),
		BusHeard: agent.GetBusHeartbeatAge() != nil, BusHeartbeatAge: agent.GetBusHeartbeatAge().AsDuration(),
		HTTPBaseURL:      agent.GetHttpBaseUrl(),
		Verified:         verification.GetOutcome() == registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED && verification.GetAge() != nil,
		Disproved:        verification.GetOutcome() == registryv1.VerificationOutcome_VERIFICATION_OUTCOME_FAILED,
		VerificationAge:  verification.GetAge().AsDuration(),
		IdentityConflict: agent.GetIdentityConflictAt() != nil,
		IngestBlind:      ingest != nil && !ingest.GetHealthy(), IngestDetail: ingest.GetDetail(),
		BrokerAhead: brokerAhead(ingest.GetBrokerSkew()),
		Elapsed:     elapsed,
	}
	// A server that vanished has no name to differ; the link is shown as missing.
	if server := agent.GetServer(); server != nil && !server.GetMissing() {
		facts.ServerName, facts.NamesDiffer = server.GetName(), !spelling.Same(server.GetName(), agent.GetName())
	}
	return facts
}

// brokerAhead is a skew that is worth telling; 0 when the clocks may agree.
func brokerAhead(skew *registryv1.ClockSkew) time.Duration {
	ahead := skew.GetAhead().AsDuration()
	if ahead.Abs()-skew.GetUncertainty().AsDuration() <= dbclock.Tolerance {
		return 0
	}
	return ahead
}
