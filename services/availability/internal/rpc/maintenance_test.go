package rpc

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func (s *service) maintenance(t *testing.T, server string) *availabilityv1.Maintenance {
	t.Helper()
	response, err := s.GetMaintenance(t.Context(), &availabilityv1.GetMaintenanceRequest{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetMaintenance()
}

func TestTheSwitchIsTurnedOnAndOff(t *testing.T) {
	s := serve(t, "BM-1")
	before := s.maintenance(t, "bm-1")
	if before.GetServer() != "BM-1" || before.GetActive() || before.GetManual().GetOn() || before.GetManual().GetChangedAt() != nil || before.GetManual().GetEtag() == "" {
		t.Fatalf("%v", before)
	}
	endAt := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	on, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{
		Server: "bm-1", Etag: before.GetManual().GetEtag(), Reason: " patches ", EndAt: timestamppb.New(endAt.Add(time.Microsecond)), Actor: "alice",
	})
	got := on.GetMaintenance()
	if err != nil || !got.GetActive() || !got.GetActiveUntil().AsTime().Equal(endAt) || !got.GetManual().GetOn() || got.GetManual().GetReason() != "patches" ||
		!got.GetManual().GetEndAt().AsTime().Equal(endAt) || got.GetManual().GetChangedBy() != "alice" || got.GetManual().GetChangedAt() == nil {
		t.Fatal(on, err)
	}
	endless, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: got.GetManual().GetEtag(), Reason: "more", Actor: "bob"})
	if got = endless.GetMaintenance(); err != nil || !got.GetActive() || got.GetActiveUntil() != nil || got.GetManual().GetEndAt() != nil {
		t.Fatal(endless, err)
	}
	off, err := s.ClearMaintenance(t.Context(), &availabilityv1.ClearMaintenanceRequest{Server: "BM-1", Etag: got.GetManual().GetEtag(), Actor: "bob"})
	if got = off.GetMaintenance(); err != nil || got.GetActive() || got.GetManual().GetOn() || got.GetManual().GetChangedBy() != "bob" {
		t.Fatal(off, err)
	}
}

func TestTheSwitchEndsAfterADuration(t *testing.T) {
	s := serve(t, "BM-1")
	etag := s.maintenance(t, "BM-1").GetManual().GetEtag()
	on, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: etag, Reason: "r", Actor: "a", Duration: durationpb.New(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	turned := on.GetMaintenance().GetManual()
	if lasts := turned.GetEndAt().AsTime().Sub(turned.GetChangedAt().AsTime()); (lasts - 2*time.Hour).Abs() > time.Minute {
		t.Errorf("it ends after %s", lasts)
	}
}

func TestI14_OfTwoTurnsOfASwitchOneIsTold(t *testing.T) {
	s := serve(t, "BM-1")
	seen := s.maintenance(t, "BM-1").GetManual().GetEtag()
	set := func(etag string) (*availabilityv1.SetMaintenanceResponse, error) {
		return s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: etag, Reason: "r", Actor: "alice"})
	}
	_, err := set("")
	if found := refused(t, err, fault.EtagRequired, "send its etag"); found.CurrentEtag != seen {
		t.Errorf("told %q, not %q", found.CurrentEtag, seen)
	}
	first, err := set(seen)
	if err != nil {
		t.Fatal(err)
	}
	_, err = set(seen)
	if found := refused(t, err, fault.StaleEtag, "nothing was changed"); found.CurrentEtag != first.GetMaintenance().GetManual().GetEtag() {
		t.Errorf("told %q", found.CurrentEtag)
	}
	_, err = s.ClearMaintenance(t.Context(), &availabilityv1.ClearMaintenanceRequest{Server: "BM-1", Etag: seen, Actor: "alice"})
	refused(t, err, fault.StaleEtag, "")
	if !s.maintenance(t, "BM-1").GetActive() {
		t.Error("a stale etag turned it off")
	}
}

func TestI17_ASwitchIsRefusedByField(t *testing.T) {
	s := serve(t, "BM-1")
	s.run(t, `INSERT INTO TblServer (Name, Type) VALUES ('Web', 'Other')`)
	etag := s.maintenance(t, "BM-1").GetManual().GetEtag()
	for pointer, request := range map[string]*availabilityv1.SetMaintenanceRequest{
		"/reason": {Server: "BM-1", Reason: "  ", Actor: "a"},
		"/endAt":  {Server: "BM-1", Reason: "r", Actor: "a", EndAt: timestamppb.New(time.Now().Add(-time.Minute))},
		"/actor":  {Server: "BM-1", Reason: "r"},
		"/server": {Server: "Web", Reason: "r", Actor: "a"},
	} {
		request.Etag = etag
		_, err := s.SetMaintenance(t.Context(), request)
		invalid(t, err, pointer, "")
	}
	for says, request := range map[string]*availabilityv1.SetMaintenanceRequest{
		"cannot be combined":   {EndAt: timestamppb.New(time.Now().Add(time.Hour)), Duration: durationpb.New(time.Hour)},
		"at least a milli":     {Duration: &durationpb.Duration{}},
		"at most 366 days":     {Duration: durationpb.New(maxSwitchDuration + 1)},
		"must be at least a m": {Duration: &durationpb.Duration{Seconds: 1 << 60}},
		"must be at least a ":  {Duration: durationpb.New(-time.Hour)},
	} {
		request.Server, request.Etag, request.Reason, request.Actor = "BM-1", etag, "r", "a"
		_, err := s.SetMaintenance(t.Context(), request)
		invalid(t, err, "/duration", says)
	}
	_, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: etag, Reason: "r", Actor: "a", EndAt: &timestamppb.Timestamp{Seconds: 1 << 60}})
	invalid(t, err, "/endAt", "must be an instant")
	_, err = s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-9", Etag: etag, Reason: "r", Actor: "a"})
	refused(t, err, fault.ServerNotFound, "BM-9")
	if s.maintenance(t, "BM-1").GetManual().GetChangedAt() != nil {
		t.Error("a refused request turned the switch")
	}
}

func TestLasting(t *testing.T) {
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	once := func(from, to int) windows.Window {
		w, err := windows.Once(hour(from), hour(to))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	daily, err := windows.Recur(windows.Recurrence{Start: "2026-11-01T00:00", Zone: "UTC", Rule: "FREQ=DAILY", Duration: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	on := func(end int) store.Switch { return store.Switch{On: true, EndAt: hour(end)} }
	for name, c := range map[string]struct {
		turned store.Switch
		rules  []windows.Window
		active bool
		until  time.Time // zero: no end in sight
	}{
		"nothing":                             {store.Switch{}, []windows.Window{once(1, 2)}, false, time.Time{}},
		"a window":                            {store.Switch{}, []windows.Window{once(-1, 2)}, true, hour(2)},
		"a switch without end":                {store.Switch{On: true}, []windows.Window{once(-1, 2)}, true, time.Time{}},
		"a switch that ended":                 {on(0), nil, false, time.Time{}},
		"a switch that ended, and a window":   {on(-1), []windows.Window{once(-1, 2)}, true, hour(2)},
		"a switch turned off":                 {store.Switch{EndAt: hour(9)}, nil, false, time.Time{}},
		"a switch of weeks":                   {on(1000), nil, true, hour(1000)},
		"a switch past a window":              {on(3), []windows.Window{once(-1, 2)}, true, hour(3)},
		"a window past the switch":            {on(3), []windows.Window{once(-1, 5)}, true, hour(5)},
		"a window that begins as it ends":     {on(3), []windows.Window{once(3, 5)}, true, hour(5)},
		"a window that begins later":          {on(3), []windows.Window{once(4, 5)}, true, hour(3)},
		"windows that meet one after another": {on(3), []windows.Window{once(5, 7), once(2, 5), once(8, 9)}, true, hour(7)},
		"a switch, then windows without end":  {on(3), []windows.Window{daily}, true, time.Time{}},
	} {
		if until, active := lasting(c.turned, c.rules, noon); active != c.active || !until.Equal(c.until) {
			t.Errorf("%s: %v until %s, want %v until %s", name, active, until, c.active, c.until)
		}
	}
}

func TestSwitchAndWindowsCountTogether(t *testing.T) {
	s := serve(t, "BM-1")
	now := time.Now().UTC().Truncate(time.Second)
	if _, err := s.CreateMaintenanceWindow(t.Context(), &availabilityv1.CreateMaintenanceWindowRequest{
		Server: "BM-1", Reason: "night", Actor: "a",
		Rule: &availabilityv1.WindowRule{StartAt: timestamppb.New(now.Add(30 * time.Minute)), EndAt: timestamppb.New(now.Add(2 * time.Hour))},
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.maintenance(t, "BM-1"); got.GetActive() || len(got.GetWindows()) != 1 {
		t.Fatalf("%v", got)
	}
	set, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: "0", Reason: "r", Actor: "a", EndAt: timestamppb.New(now.Add(time.Hour))})
	if got := set.GetMaintenance(); err != nil || !got.GetActive() || !got.GetActiveUntil().AsTime().Equal(now.Add(2*time.Hour)) {
		t.Error(set, err)
	}
}
