package rpc

import (
	"context"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
	"google.golang.org/protobuf/types/known/durationpb"
)

var results = map[enrollment.Result]registryv1.HeartbeatResult{
	enrollment.Created:   registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED,
	enrollment.Updated:   registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED,
	enrollment.Stale:     registryv1.HeartbeatResult_HEARTBEAT_RESULT_STALE,
	enrollment.Duplicate: registryv1.HeartbeatResult_HEARTBEAT_RESULT_DUPLICATE,
}

// RecordHeartbeats stores a batch. It answers only after the effect is durable (I-7); one bad item leaves the others alone.
func (s *Agents) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	answers := make([]*registryv1.RecordedHeartbeat, len(request.GetHeartbeats()))
	valid := make([]enrollment.Heartbeat, 0, len(answers))
	places := make([]int, 0, len(answers))
	for i, observed := range request.GetHeartbeats() {
		path, _ := pathOf(observed.GetPath()) // an unknown path is refused by the check
		heartbeat, invalid := enrollment.CheckHeartbeat(observed.GetHeartbeat(), path, observed.GetObservedAt())
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
	for i, result := range recorded {
		if refusal := rejected[i]; refusal != nil {
			answers[places[i]] = invalidAnswer("heartbeat", "the database refuses it: "+refusal.Error())
			continue
		}
		answers[places[i]] = &registryv1.RecordedHeartbeat{Result: results[result]}
	}
	for _, answer := range answers {
		s.Metrics.Heartbeats.WithLabelValues(label(answer.GetResult())).Inc()
	}
	return &registryv1.RecordHeartbeatsResponse{Results: answers}, nil
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
	health, err := s.Store.ReportEvidence(ctx, store.Evidence{
		Path: path, Consumer: request.GetConsumerId(), CanaryRoundTrip: optional(request.GetCanaryRoundTrip()),
		OldestMessageAge: optional(request.GetOldestMessageAge()), SinceLastReceive: optional(request.GetSinceLastReceive()),
	})
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.ReportIngestEvidenceResponse{Health: healthMessage(request.GetPath(), health)}, nil
}

func optional(given *durationpb.Duration) *time.Duration {
	if given == nil || !given.IsValid() {
		return nil
	}
	value := given.AsDuration()
	return &value
}
