package rpc

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
)

// shownOccurrences is how many occurrences of a window are shown.
const shownOccurrences = 5

// windowOrders are the orders of a server's windows, which are read whole, by name.
var windowOrders = map[string]func(a, b *availabilityv1.MaintenanceWindow) int{
	"id": func(a, b *availabilityv1.MaintenanceWindow) int { return cmp.Compare(a.GetId(), b.GetId()) },
	"created_by": func(a, b *availabilityv1.MaintenanceWindow) int {
		return cmp.Compare(a.GetCreatedBy(), b.GetCreatedBy())
	},
	"next": func(a, b *availabilityv1.MaintenanceWindow) int { return nextStart(a).Compare(nextStart(b)) },
}

// nextStart is when a window occurs next, or began where it is in progress; beyond every time where it never does.
func nextStart(w *availabilityv1.MaintenanceWindow) time.Time {
	if len(w.GetOccurrences()) == 0 {
		return time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return w.GetOccurrences()[0].GetStartAt().AsTime()
}

// ListMaintenanceWindows reads a server's windows.
func (a *Availability) ListMaintenanceWindows(ctx context.Context, request *availabilityv1.ListMaintenanceWindowsRequest) (*availabilityv1.ListMaintenanceWindowsResponse, error) {
	order, err := paging.ParseOrder(request.GetOrderBy(), "id", slices.Sorted(maps.Keys(windowOrders))...)
	if err != nil {
		return nil, err
	}
	_, planned, now, err := a.store.Maintenance(ctx, request.GetServer())
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &availabilityv1.ListMaintenanceWindowsResponse{}
	for _, w := range planned {
		response.Windows = append(response.Windows, windowMessage(w, now))
	}
	paging.Sort(response.Windows, order, windowOrders[order.By])
	return response, nil
}

// CreateMaintenanceWindow adds a window.
func (a *Availability) CreateMaintenanceWindow(ctx context.Context, request *availabilityv1.CreateMaintenanceWindowRequest) (*availabilityv1.CreateMaintenanceWindowResponse, error) {
	reason, err := parseReason(request.GetReason())
	if err != nil {
		return nil, err
	}
	planned, rule, err := parseRule(request.GetRule())
	if err != nil {
		return nil, err
	}
	planned.Reason = reason
	planned.LastEndAt, _ = rule.LastEnd()
	key, err := parseKey(request.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	added, now, err := a.store.AddWindow(ctx, request.GetServer(), planned, request.GetActor(), key)
	if err != nil {
		return nil, mapped(err, endOf(planned))
	}
	return &availabilityv1.CreateMaintenanceWindowResponse{Window: windowMessage(added, now)}, nil
}

// parseKey reads the key of a request; empty: none.
func parseKey(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	// uuid also parses forms with braces or a prefix, which differ for one id.
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return "", fault.Invalid("/idempotencyKey", "must be a UUID, is %q", text)
	}
	return id.String(), nil
}

// endOf points at the field that ends a window.
func endOf(w store.Window) string {
	if w.Rule == "" {
		return onceFields["end"]
	}
	return recurFields["rule"]
}

// PreviewMaintenanceWindow tells when a window of the server would occur.
func (a *Availability) PreviewMaintenanceWindow(ctx context.Context, request *availabilityv1.PreviewMaintenanceWindowRequest) (*availabilityv1.PreviewMaintenanceWindowResponse, error) {
	_, rule, err := parseRule(request.GetRule())
	if err != nil {
		return nil, err
	}
	_, _, now, err := a.store.Maintenance(ctx, request.GetServer())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.PreviewMaintenanceWindowResponse{Occurrences: occurrenceMessages(rule, now)}, nil
}

// DeleteMaintenanceWindow removes a window.
func (a *Availability) DeleteMaintenanceWindow(ctx context.Context, request *availabilityv1.DeleteMaintenanceWindowRequest) (*availabilityv1.DeleteMaintenanceWindowResponse, error) {
	if err := a.store.DeleteWindow(ctx, request.GetServer(), request.GetId()); err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.DeleteMaintenanceWindowResponse{}, nil
}

// parseRule reads when a window is: as it is stored, to the millisecond, and as it occurs.
func parseRule(rule *availabilityv1.WindowRule) (store.Window, windows.Window, error) {
	oneOff := rule.GetStartAt() != nil || rule.GetEndAt() != nil
	recurring := rule.GetStart() != "" || rule.GetZone() != "" || rule.GetRule() != "" || rule.GetDuration() != nil || rule.GetEnds() != ""
	parse, fields := parseOnce, onceFields
	switch {
	case oneOff && recurring:
		return store.Window{}, windows.Window{}, fault.Invalid("/rule", "is both: give startAt and endAt for a one-off window, or start, zone, rule, and duration or ends, for a recurring one")
	case recurring:
		parse, fields = parseRecurring, recurFields
	case !oneOff:
		return store.Window{}, windows.Window{}, fault.Invalid("/rule", "is empty: give startAt and endAt for a one-off window, or start, zone, rule, and duration or ends, for a recurring one")
	}
	planned, err := parse(rule)
	if err != nil {
		return store.Window{}, windows.Window{}, err
	}
	occurs, err := planned.Window()
	return planned, occurs, ruleError(err, fields)
}

func parseOnce(rule *availabilityv1.WindowRule) (store.Window, error) {
	startAt, err := requiredInstant("/rule/startAt", rule.GetStartAt())
	if err != nil {
		return store.Window{}, err
	}
	endAt, err := requiredInstant("/rule/endAt", rule.GetEndAt())
	return store.Window{StartAt: startAt, EndAt: endAt}, err
}

func requiredInstant(pointer string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, fault.Invalid(pointer, "is required for a one-off window")
	}
	return optionalInstant(pointer, at)
}

func parseRecurring(rule *availabilityv1.WindowRule) (store.Window, error) {
	if rule.GetRule() == "" {
		return store.Window{}, fault.Invalid("/rule/rule", "is required for a recurring window, such as FREQ=WEEKLY;BYDAY=SU")
	}
	return store.Window{
		Start: rule.GetStart(), Zone: rule.GetZone(), Rule: windows.TrimRule(rule.GetRule()), Ends: rule.GetEnds(),
		Duration: rule.GetDuration().AsDuration().Truncate(time.Millisecond),
	}, nil
}

func windowMessage(w store.Window, now time.Time) *availabilityv1.MaintenanceWindow {
	message := &availabilityv1.MaintenanceWindow{
		Id: w.ID, Reason: w.Reason, CreatedBy: w.CreatedBy, CreatedAt: instant(w.CreatedAt),
		Rule: &availabilityv1.WindowRule{StartAt: instant(w.StartAt), EndAt: instant(w.EndAt), Start: w.Start, Zone: w.Zone, Rule: w.Rule, Ends: w.Ends},
	}
	if w.Duration != 0 {
		message.Rule.Duration = durationpb.New(w.Duration)
	}
	rule, err := w.Window()
	if err != nil { // it was understood when it was stored; zones come and go
		message.Problem = "is no longer understood, and never occurs: " + err.Error() + "; delete it, and make it again"
		return message
	}
	_, message.Active = rule.Covering(now)
	message.Occurrences = occurrenceMessages(rule, now)
	return message
}

// occurrenceMessages are the next occurrences; one in progress comes first.
func occurrenceMessages(rule windows.Window, now time.Time) []*availabilityv1.Occurrence {
	var next []windows.Occurrence
	if current, ok := rule.Covering(now); ok {
		next = append(next, current)
	}
	var messages []*availabilityv1.Occurrence
	for _, o := range append(next, rule.Occurrences(now, shownOccurrences-len(next))...) {
		messages = append(messages, &availabilityv1.Occurrence{
			StartAt: instant(o.Start), EndAt: instant(o.End), StartLocal: o.Start.Format(time.RFC3339Nano), EndLocal: o.End.Format(time.RFC3339Nano),
			Duration: durationpb.New(o.Elapsed()), WallDuration: durationpb.New(o.ByWall()),
		})
	}
	return messages
}
