package ingest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// Reasons in the dead-letter queue.
const (
	ReasonUndecodable = "UNDECODABLE_HEARTBEAT"
	ReasonInvalid     = "INVALID_HEARTBEAT"
)

const (
	// maxBatchBytes keeps a call under the registry's limit of 8 MiB, whatever the size of the heartbeats.
	maxBatchBytes = 3 << 20
	// recordTimeout bounds one call to the registry.
	recordTimeout = 10 * time.Second
	// minHold and maxHold bound the wait between tries while the registry does not answer.
	minHold, maxHold = 200 * time.Millisecond, 5 * time.Second
	// releaseTimeout bounds the release of what is held at the stop.
	releaseTimeout = 5 * time.Second
)

// Source is the subscription; *servicebus.Consumer is one.
type Source interface {
	Receive(ctx context.Context, most int) []*servicebus.ReceivedMessage
	Settle(ctx context.Context, settlements []servicebus.Settlement) (failed int)
	RenewLocks(ctx context.Context, messages []*servicebus.ReceivedMessage) []*servicebus.ReceivedMessage
}

// Registry is what is called; registryv1.AgentRegistryClient is one.
type Registry interface {
	RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error)
}

// Loop receives, records and settles, one batch after the other. Several run side by side, so that one receives while
// another waits for the registry.
type Loop struct {
	Source   Source
	Registry Registry
	Evidence *Evidence
	Metrics  *Metrics
	Logger   *slog.Logger
	// Most is the size of a batch, up to 1,000.
	Most int
}

// Run goes on until the context ends; then everything held is settled or released.
func (l *Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		messages := l.Source.Receive(ctx, l.Most)
		if len(messages) == 0 {
			continue
		}
		l.Evidence.Received()
		l.Metrics.Batch.Observe(float64(len(messages)))
		l.handle(ctx, messages)
	}
	return nil
}

// item is one heartbeat on its way.
type item struct {
	message  *servicebus.ReceivedMessage
	observed *registryv1.ObservedHeartbeat
	bytes    int
}

// handle takes a batch to its end. Nothing is settled before the registry answered for it (I-7).
func (l *Loop) handle(ctx context.Context, messages []*servicebus.ReceivedMessage) {
	var settlements []servicebus.Settlement
	var items []item
	var canaries []*servicebus.ReceivedMessage
	for _, message := range messages {
		if isCanary(message) {
			canaries = append(canaries, message)
			settlements = append(settlements, servicebus.Settlement{Message: message})
			continue
		}
		heartbeat, err := Decode(message.Body, value(message.ContentType))
		if err != nil {
			settlements = append(settlements, l.deadLetter(message, ReasonUndecodable, err.Error()))
			continue
		}
		items = append(items, item{message, &registryv1.ObservedHeartbeat{
			Heartbeat: heartbeat, Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ObservedAt: enqueued(message),
		}, len(message.Body)})
	}
	for _, part := range parts(items, maxBatchBytes) {
		settlements = append(settlements, l.recordPart(ctx, part)...)
	}
	// A drain settles too: what the registry stored must not come again if that can be helped.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*releaseTimeout)
	defer cancel()
	l.Metrics.SettleFailures.Add(float64(l.Source.Settle(settling, settlements)))
	for _, canary := range canaries {
		l.Evidence.CanaryCame(canary)
	}
}

// parts cuts a batch so that none is too large for one call.
func parts(items []item, most int) [][]item {
	var cut [][]item
	begin, bytes := 0, 0
	for i, one := range items {
		if i > begin && bytes+one.bytes > most {
			cut = append(cut, items[begin:i])
			begin, bytes = i, 0
		}
		bytes += one.bytes
	}
	if begin < len(items) {
		cut = append(cut, items[begin:])
	}
	return cut
}

// recordPart records until the registry answers. While it does not, what is held stays held, under locks that are renewed:
// giving it back would only have it delivered again, and an outage longer than the allowed deliveries would dead-letter good
// heartbeats. Nothing more is received meanwhile.
func (l *Loop) recordPart(ctx context.Context, part []item) []servicebus.Settlement {
	for hold := minHold; ; hold = min(2*hold, maxHold) {
		answered, err := l.call(ctx, part)
		if err == nil {
			return l.settlements(part, answered.GetResults())
		}
		if status.Code(err) == codes.InvalidArgument {
			return l.halve(ctx, part, err)
		}
		l.Logger.Error("the registry does not take heartbeats; they are held and tried again", "held", len(part), "again_in", hold, "error", err)
		l.Metrics.RegistryFailures.Inc()
		if !l.hold(ctx, hold) {
			return release(part)
		}
		part = l.renew(ctx, part, hold)
		if len(part) == 0 {
			return nil
		}
	}
}

func (l *Loop) call(ctx context.Context, part []item) (*registryv1.RecordHeartbeatsResponse, error) {
	request := &registryv1.RecordHeartbeatsRequest{Heartbeats: make([]*registryv1.ObservedHeartbeat, len(part))}
	for i, one := range part {
		request.Heartbeats[i] = one.observed
	}
	// A call that is under way is not cut off by a drain: its answer tells what may be settled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	answered, err := l.Registry.RecordHeartbeats(ctx, request)
	if err == nil && len(answered.GetResults()) != len(part) {
		return nil, status.Errorf(codes.Internal, "the registry answered %d of %d heartbeats", len(answered.GetResults()), len(part))
	}
	return answered, err
}

// halve finds the item that makes the registry refuse a whole call, and lets the others through.
func (l *Loop) halve(ctx context.Context, part []item, cause error) []servicebus.Settlement {
	if len(part) == 1 {
		return []servicebus.Settlement{l.deadLetter(part[0].message, ReasonInvalid, status.Convert(cause).Message())}
	}
	half := len(part) / 2
	return append(l.recordPart(ctx, part[:half]), l.recordPart(ctx, part[half:])...)
}

func (l *Loop) hold(ctx context.Context, hold time.Duration) bool {
	timer := time.NewTimer(hold/2 + rand.N(hold/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// renew renews locks that would lapse soon, and lets go of what is no longer ours: it comes again by itself.
func (l *Loop) renew(ctx context.Context, part []item, hold time.Duration) []item {
	var due []*servicebus.ReceivedMessage
	for _, one := range part {
		if one.message.LockedUntil != nil && time.Until(*one.message.LockedUntil) < 2*maxHold+recordTimeout+hold {
			due = append(due, one.message)
		}
	}
	if len(due) == 0 {
		return part
	}
	kept := map[*servicebus.ReceivedMessage]bool{}
	for _, message := range l.Source.RenewLocks(ctx, due) {
		kept[message] = true
	}
	lost := map[*servicebus.ReceivedMessage]bool{}
	for _, message := range due {
		lost[message] = !kept[message]
	}
	var ours []item
	for _, one := range part {
		if !lost[one.message] {
			ours = append(ours, one)
		}
	}
	return ours
}

func release(part []item) []servicebus.Settlement {
	settlements := make([]servicebus.Settlement, len(part))
	for i, one := range part {
		settlements[i] = servicebus.Settlement{Message: one.message, Release: true}
	}
	return settlements
}

func (l *Loop) settlements(part []item, results []*registryv1.RecordedHeartbeat) []servicebus.Settlement {
	settlements := make([]servicebus.Settlement, len(part))
	for i, one := range part {
		result := results[i]
		l.Metrics.Heartbeats.WithLabelValues(label(result.GetResult())).Inc()
		switch result.GetResult() {
		case registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID:
			settlements[i] = l.deadLetter(one.message, ReasonInvalid, result.GetDescription())
		case registryv1.HeartbeatResult_HEARTBEAT_RESULT_UNSPECIFIED:
			// A registry newer than this says something unknown: the heartbeat stays, for whoever understands.
			settlements[i] = servicebus.Settlement{Message: one.message, Release: true}
		default:
			l.Metrics.Lag.Observe(max(0, time.Since(one.observed.GetObservedAt().AsTime()).Seconds()))
			settlements[i] = servicebus.Settlement{Message: one.message}
		}
	}
	return settlements
}

// maxDescription is what the broker takes as a dead-letter description, with room to spare.
const maxDescription = 2048

func (l *Loop) deadLetter(message *servicebus.ReceivedMessage, reason, description string) servicebus.Settlement {
	l.Logger.Warn("a heartbeat is dead-lettered", "reason", reason, "description", description, "message_id", message.MessageID)
	l.Metrics.DeadLettered.WithLabelValues(reason).Inc()
	if len(description) > maxDescription {
		description = description[:maxDescription]
	}
	return servicebus.Settlement{Message: message, DeadLetterReason: reason, Description: description}
}

func enqueued(message *servicebus.ReceivedMessage) *timestamppb.Timestamp {
	if message.EnqueuedTime == nil {
		return timestamppb.Now()
	}
	return timestamppb.New(*message.EnqueuedTime)
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
