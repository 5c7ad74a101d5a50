package ingest

import (
	"context"
	"strings"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// Reasons in the dead-letter queue.
const (
	ReasonUndecodable = "UNDECODABLE_HEARTBEAT"
	ReasonInvalid     = "INVALID_HEARTBEAT"
)

const (
	// drainTimeout bounds the settling of a batch, at the stop too.
	drainTimeout = 10 * time.Second
	// maxDescription is what the broker takes as a dead-letter description, in bytes, with room to spare.
	maxDescription = 2048
)

// settlements says what becomes of heartbeats the registry answered.
func (l *Loop) settlements(part []item, results []*registryv1.RecordedHeartbeat) []servicebus.Settlement {
	settlements := make([]servicebus.Settlement, len(part))
	now := time.Now()
	for i, one := range part {
		result := results[i]
		l.Metrics.Heartbeats.WithLabelValues(label(result.GetResult())).Inc()
		if result.GetResult() == registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID {
			settlements[i] = deadLetter(one.delivery, ReasonInvalid, invalidity(result))
			continue
		}
		if age, known := one.age(l.Evidence.Clock, now); known {
			l.Metrics.Lag.Observe(age.Seconds())
		}
		settlements[i] = servicebus.Settlement{Delivery: one.delivery}
	}
	return settlements
}

// invalidity names the field, whether or not the registry's description does.
func invalidity(result *registryv1.RecordedHeartbeat) string {
	field, description := result.GetField(), result.GetDescription()
	if field == "" || strings.HasPrefix(description, field) {
		return description
	}
	return field + ": " + description
}

func deadLetter(delivery servicebus.Delivery, reason, description string) servicebus.Settlement {
	if len(description) > maxDescription {
		description = description[:maxDescription]
	}
	// AMQP strings are UTF-8; the description may quote what was not, or was cut within a character.
	return servicebus.Settlement{Delivery: delivery, DeadLetterReason: reason, Description: strings.ToValidUTF8(description, "")}
}

// each settles all alike: released, or completed.
func each(deliveries []servicebus.Delivery, release bool) []servicebus.Settlement {
	settlements := make([]servicebus.Settlement, len(deliveries))
	for i, delivery := range deliveries {
		settlements[i] = servicebus.Settlement{Delivery: delivery, Release: release}
	}
	return settlements
}

// settleNow settles, and shows in log and metrics what was dead-lettered and what failed. A drain settles too: what the
// registry stored must not come again if that can be helped.
func (l *Loop) settleNow(ctx context.Context, settlements []servicebus.Settlement) {
	if len(settlements) == 0 {
		return
	}
	for _, one := range settlements {
		if one.DeadLetterReason != "" {
			l.Metrics.DeadLettered.WithLabelValues(one.DeadLetterReason).Inc()
			l.Logger.Warn("a heartbeat is dead-lettered", "reason", one.DeadLetterReason, "description", one.Description, "message_id", one.MessageID)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	l.locks.drop(settlements)
	settled := l.Source.Settle(ctx, settlements)
	l.Metrics.SettleFailures.WithLabelValues("lapsed").Add(float64(settled.Lapsed))
	l.Metrics.SettleFailures.WithLabelValues("failed").Add(float64(settled.Failed))
}
