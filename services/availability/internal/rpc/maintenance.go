package rpc

import (
	"context"
	"strings"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/textrule"
)

// GetMaintenance reads a server's switch and windows.
func (a *Availability) GetMaintenance(ctx context.Context, request *availabilityv1.GetMaintenanceRequest) (*availabilityv1.GetMaintenanceResponse, error) {
	server, planned, now, err := a.store.Maintenance(ctx, request.GetServer())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.GetMaintenanceResponse{Maintenance: maintenanceMessage(server, planned, now)}, nil
}

// SetMaintenance turns a server's switch on.
func (a *Availability) SetMaintenance(ctx context.Context, request *availabilityv1.SetMaintenanceRequest) (*availabilityv1.SetMaintenanceResponse, error) {
	reason, err := parseReason(request.GetReason())
	if err != nil {
		return nil, err
	}
	end, err := parseEnd(request)
	if err != nil {
		return nil, err
	}
	server, planned, now, err := a.store.SetSwitch(ctx, request.GetServer(), request.GetEtag(), true, reason, end, request.GetActor())
	if err != nil {
		return nil, mapped(err, "/endAt")
	}
	return &availabilityv1.SetMaintenanceResponse{Maintenance: maintenanceMessage(server, planned, now)}, nil
}

// ClearMaintenance turns a server's switch off.
func (a *Availability) ClearMaintenance(ctx context.Context, request *availabilityv1.ClearMaintenanceRequest) (*availabilityv1.ClearMaintenanceResponse, error) {
	server, planned, now, err := a.store.SetSwitch(ctx, request.GetServer(), request.GetEtag(), false, "", store.End{}, request.GetActor())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.ClearMaintenanceResponse{Maintenance: maintenanceMessage(server, planned, now)}, nil
}

// maxSwitchDuration bounds the time after which a switch that was turned on ends by itself.
const maxSwitchDuration = 366 * 24 * time.Hour

// parseEnd reads when the switch ends by itself.
func parseEnd(request *availabilityv1.SetMaintenanceRequest) (store.End, error) {
	if request.GetDuration() == nil {
		endAt, err := optionalInstant("/endAt", request.GetEndAt())
		return store.End{At: endAt}, err
	}
	if request.GetEndAt() != nil {
		return store.End{}, fault.Invalid("/duration", "cannot be combined with endAt: give one of them")
	}
	lasts := request.GetDuration().AsDuration()
	if request.GetDuration().CheckValid() != nil || lasts < time.Millisecond || lasts > maxSwitchDuration {
		return store.End{}, fault.Invalid("/duration", "must be at least a millisecond and at most 366 days")
	}
	return store.End{In: lasts}, nil
}

// parseReason wants words, and not only blanks.
func parseReason(text string) (string, error) {
	reason := strings.TrimSpace(text)
	if reason == "" {
		return "", fault.Invalid("/reason", "must say why, in words")
	}
	if err := textrule.Prose(text); err != nil {
		return "", fault.Invalid("/reason", "%v", err)
	}
	return reason, nil
}

func maintenanceMessage(server store.Server, planned []store.Window, now time.Time) *availabilityv1.Maintenance {
	turned := server.Switch
	message := &availabilityv1.Maintenance{Server: server.Name, Manual: &availabilityv1.MaintenanceSwitch{
		On: turned.OnAt(now), Reason: turned.Reason, EndAt: instant(turned.EndAt),
		ChangedBy: turned.ChangedBy, ChangedAt: instant(turned.ChangedAt), Etag: turned.Etag(),
	}}
	var rules []windows.Window
	for _, w := range planned {
		message.Windows = append(message.Windows, windowMessage(w, now))
		if rule, err := w.Window(); err == nil { // one that is no longer understood says so in its message, and never occurs
			rules = append(rules, rule)
		}
	}
	until, active := lasting(turned, rules, now)
	message.Active, message.ActiveUntil = active, instant(until)
	return message
}

// lasting tells whether maintenance is on, by the switch or a window, and until when without a pause; zero: no end is in sight.
func lasting(turned store.Switch, rules []windows.Window, now time.Time) (until time.Time, active bool) {
	switch {
	case !turned.OnAt(now):
		return windows.Active(rules, now)
	case turned.EndAt.IsZero():
		return time.Time{}, true
	}
	if further, meets := windows.Active(rules, turned.EndAt); meets {
		return further, true
	}
	return turned.EndAt, true
}
