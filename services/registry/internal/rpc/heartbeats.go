package rpc

import (
	"context"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var results = map[enrollment.Result]registryv1.HeartbeatResult{
	enrollment.Created:       registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED,
	enrollment.Updated:       registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED,
	enrollment.Stale:         registryv1.HeartbeatResult_HEARTBEAT_RESULT_STALE,
	enrollment.Duplicate:     registryv1.HeartbeatResult_HEARTBEAT_RESULT_DUPLICATE,
	enrollment.WrongToken:    registryv1.HeartbeatResult_HEARTBEAT_RESULT_WRONG_TOKEN,
	enrollment.NotRegistered: registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_REGISTERED,
	enrollment.NotClaimable:  registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_CLAIMABLE,
}

// Lists derives agents' failover lists from the cloud as it was last committed. Calls come at once, one for every direct heartbeat.
type Lists interface {
	// List is an agent's list; nil when it has the etag that the agent knows, or when there is nobody to list.
	List(agent cloud.Agent, etag string) *agentv1.FailoverList
}

// RecordHeartbeats stores a batch. It answers only after the effect is durable (I-7); one bad item leaves the others alone.
func (s *Agents) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	answers := make([]*registryv1.RecordedHeartbeat, len(request.GetHeartbeats()))
	valid := make([]enrollment.Heartbeat, 0, len(answers))
	places := make([]int, 0, len(answers))
	for i, observed := range request.GetHeartbeats() {
		heartbeat, invalid := check(observed)
		if invalid != nil {
			answers[i] = invalidAnswer(invalid.Field, invalid.Rule)
			continue
		}
		valid, places = append(valid, heartbeat), append(places, i)
	}
	recorded, rejected, err := s.Store.RecordHeartbeats(ctx, valid)
	if err != nil {
		return nil, mapped(err, "")
	}
	for i, one := range recorded {
		if refusal := rejected[i]; refusal != nil {
			answers[places[i]] = invalidAnswer("heartbeat", "the database refuses it: "+refusal.Error())
			continue
		}
		if one.Result == enrollment.NotNew {
			answers[places[i]] = invalidAnswer(valid[i].OnlyKnown.Field, valid[i].OnlyKnown.Rule)
			continue
		}
		answers[places[i]] = &registryv1.RecordedHeartbeat{Result: results[one.Result]}
		if s.Lists != nil && valid[i].Path == enrollment.Direct && one.Result.Taken() {
			known := request.GetHeartbeats()[places[i]].GetIdentity().GetListEtag()
			answers[places[i]].FailoverList = s.Lists.List(one.Agent, known)
		}
	}
	for _, answer := range answers {
		s.Metrics.Heartbeats.WithLabelValues(label(answer.GetResult())).Inc()
	}
	return &registryv1.RecordHeartbeatsResponse{Results: answers}, nil
}

// check makes a heartbeat of what was observed, or says which field is at fault.
func check(observed *registryv1.ObservedHeartbeat) (enrollment.Heartbeat, *enrollment.InvalidError) {
	path, _ := pathOf(observed.GetPath()) // an unknown path is refused by the check
	at, age := observed.GetObservedAt(), ageOf(observed, path)
	if age.Known && !at.IsValid() {
		at = &timestamppb.Timestamp{} // it is not looked at
	}
	heartbeat, invalid := enrollment.CheckHeartbeat(observed.GetHeartbeat(), path, at)
	heartbeat.Age = age
	if invalid == nil {
		heartbeat.Identity, invalid = enrollment.CheckIdentity(path, observed.GetIdentity())
	}
	return heartbeat, invalid
}

// ageOf is the age of a heartbeat by one clock. A control server of the release before tells none, and its own clock is not believed: what it
// brings was just observed, since it holds no heartbeat for longer than its agent waits.
func ageOf(observed *registryv1.ObservedHeartbeat, path enrollment.Path) enrollment.Age {
	if age := observed.GetAge(); age != nil && age.IsValid() {
		return enrollment.Age{Of: age.AsDuration(), Known: true}
	}
	return enrollment.Age{Known: path == enrollment.Direct}
}

func invalidAnswer(field, rule string) *registryv1.RecordedHeartbeat {
	return &registryv1.RecordedHeartbeat{Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID, Field: field, Description: field + ": " + rule}
}

// ReportIngestEvidence stores a consumer's proof of listening.
func (s *Agents) ReportIngestEvidence(ctx context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error) {
	path, err := pathOf(request.GetPath())
	if err != nil {
		return nil, err
	}
	health, at, err := s.Store.ReportEvidence(ctx, store.Evidence{
		Path: path, Consumer: request.GetConsumerId(), CanaryRoundTrip: optional(request.GetCanaryRoundTrip()),
		OldestMessageAge: optional(request.GetOldestMessageAge()), SinceLastReceive: optional(request.GetSinceLastReceive()),
		BrokerSkew: skewOf(request.GetBrokerSkew()),
	})
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.ReportIngestEvidenceResponse{Health: healthMessage(request.GetPath(), health), DatabaseTime: timestamppb.New(at)}, nil
}

func optional(given *durationpb.Duration) *time.Duration {
	if given == nil || !given.IsValid() {
		return nil
	}
	value := given.AsDuration()
	return &value
}

// skewOf reads a measured skew; nil: none was.
func skewOf(given *registryv1.ClockSkew) *store.Skew {
	ahead := optional(given.GetAhead())
	if ahead == nil {
		return nil
	}
	return &store.Skew{Ahead: *ahead, Within: max(0, given.GetUncertainty().AsDuration())}
}

func skewMessage(skew *store.Skew) *registryv1.ClockSkew {
	if skew == nil {
		return nil
	}
	return &registryv1.ClockSkew{Ahead: durationpb.New(skew.Ahead), Uncertainty: durationpb.New(skew.Within)}
}
