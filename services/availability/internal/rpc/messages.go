package rpc

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// How the contract calls what is decided.
var (
	verdicts = map[verdict.Availability]availabilityv1.Verdict{
		verdict.Available:   availabilityv1.Verdict_VERDICT_AVAILABLE,
		verdict.Unavailable: availabilityv1.Verdict_VERDICT_UNAVAILABLE,
		verdict.Unknown:     availabilityv1.Verdict_VERDICT_UNKNOWN,
	}
	holdings = map[verdict.Holding]availabilityv1.Holding{
		verdict.Frozen: availabilityv1.Holding_HOLDING_FROZEN,
		verdict.Braked: availabilityv1.Holding_HOLDING_BRAKED,
	}
	states = map[verdict.State]registryv1.ServerState{
		verdict.StateUnknown:     registryv1.ServerState_SERVER_STATE_UNKNOWN,
		verdict.StateOnline:      registryv1.ServerState_SERVER_STATE_ONLINE,
		verdict.StateOffline:     registryv1.ServerState_SERVER_STATE_OFFLINE,
		verdict.StateMaintenance: registryv1.ServerState_SERVER_STATE_MAINTENANCE,
		verdict.StateHeld:        registryv1.ServerState_SERVER_STATE_HELD,
	}
	paths = map[verdict.Path]registryv1.HeartbeatPath{
		verdict.Bus:    registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS,
		verdict.Direct: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT,
	}
	shownOrders = map[verdict.Order]availabilityv1.BrakeOrder{
		verdict.Apply: availabilityv1.BrakeOrder_BRAKE_ORDER_APPLY,
		verdict.Hold:  availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD,
	}
	givenOrders = map[availabilityv1.BrakeOrder]verdict.Order{
		availabilityv1.BrakeOrder_BRAKE_ORDER_APPLY: verdict.Apply,
		availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD:  verdict.Hold,
		availabilityv1.BrakeOrder_BRAKE_ORDER_NONE:  verdict.NoOrder,
	}
)

// keyOf finds what the contract's name stands for.
func keyOf[K, V comparable](names map[K]V, name V) (K, bool) {
	for key, value := range names {
		if value == name {
			return key, true
		}
	}
	var none K
	return none, false
}

func serverMessage(s store.Server) *availabilityv1.ServerAvailability {
	message := &availabilityv1.ServerAvailability{
		ServerKey: s.Key, Server: s.Name, Online: s.Online, OnlineDecided: s.Online, SecondWriterAt: instant(s.SecondWriterAt),
		State: states[s.Facts().State()],
	}
	if s.Status.Since.IsZero() { // not judged yet: nothing is decided against what is stored
		return message
	}
	message.OnlineDecided, message.Maintenance = s.Status.Online, s.Status.Maintenance
	message.Verdict, message.Reason, message.Detail = verdicts[s.Status.Verdict.Availability], string(s.Status.Verdict.Reason), s.Detail
	message.Since = instant(s.Status.Since)
	if s.Status.Verdict.Reason == verdict.HeartbeatSilent { // a fresh heartbeat that was stored is not the newest for long
		message.HeardAt = instant(s.Status.Verdict.HeardAt)
	}
	if s.Status.Held != verdict.NotHeld {
		message.Holding, message.HeldPath = holdings[s.Status.Held], paths[s.Status.HeldPath]
	}
	return message
}

func pathMessage(path verdict.Path, p store.Path) *availabilityv1.PathStatus {
	brake := p.State.Brake
	return &availabilityv1.PathStatus{
		Path: paths[path], Blind: string(p.Blind), FrozenSince: instant(p.State.FrozenSince),
		Braked: p.Braked, BrakeSince: instant(brake.Since), BrakeProofs: int32(brake.Proofs),
		Order: shownOrders[brake.Order], OrderedBy: p.OrderedBy, OrderedAt: instant(p.OrderedAt),
		ServersOnline: int32(p.Crowd.Online), ServersSilent: int32(p.Crowd.Silent), ServersHeld: int32(p.Held), Etag: p.Etag(),
		BrokerSkew: skewMessage(p.Broker), StartingUntil: instant(p.StartingUntil),
	}
}

func overviewMessage(o store.Overview, mode availabilityv1.Mode, unwritten error) *availabilityv1.Overview {
	message := &availabilityv1.Overview{
		Mode: mode, Holder: o.Lease.Holder, LeaseExpiresAt: instant(o.Lease.ExpiresAt), SecondWriterAt: instant(o.SecondWriterAt),
		Banners: slices.Concat(unwritable(unwritten), banners(o, mode)),
	}
	for path, p := range o.Paths {
		message.Paths = append(message.Paths, pathMessage(verdict.Path(path), p))
	}
	return message
}

// instant is absent for the zero time.
func instant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// optionalInstant reads an instant that may be absent, to the millisecond that the database keeps.
func optionalInstant(pointer string, at *timestamppb.Timestamp) (time.Time, error) {
	switch {
	case at == nil:
		return time.Time{}, nil
	case !at.IsValid():
		return time.Time{}, fault.Invalid(pointer, "must be an instant in the years 1 to 9999")
	}
	return at.AsTime().Truncate(time.Millisecond), nil
}
