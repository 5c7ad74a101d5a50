package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/watch"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

func TestFailuresSayWhatWasAndWasNotDone(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reason fault.Reason
		code   codes.Code
		says   string
	}{
		"the database":      {io.ErrUnexpectedEOF, fault.AvailabilityUnavailable, codes.Unavailable, "nothing was changed"},
		"a conflict":        {sqldb.ErrConflict, fault.AvailabilityUnavailable, codes.Unavailable, "nothing was changed"},
		"the commit":        {fmt.Errorf("%w: %w", sqldb.ErrCommit, io.ErrUnexpectedEOF), fault.OutcomeUnknown, codes.DeadlineExceeded, "it is made or it is not"},
		"the commit's time": {fmt.Errorf("%w: %w", sqldb.ErrCommit, context.DeadlineExceeded), fault.OutcomeUnknown, codes.DeadlineExceeded, "it is made or it is not"},
		"the caller's time": {context.DeadlineExceeded, fault.ReadTimeout, codes.DeadlineExceeded, "time ended"},
		"a stop":            {watch.ErrStopping, fault.AvailabilityUnavailable, codes.Unavailable, "watch again"},
		"a slow watcher":    {watch.ErrTooSlow, fault.WatchTooSlow, codes.ResourceExhausted, "watch again"},
	} {
		found := fault.From(mapped(c.err, ""))
		if found.Reason != c.reason || status.Code(found.GRPCStatus().Err()) != c.code || !strings.Contains(found.Detail, c.says) || strings.Contains(found.Detail, "EOF") {
			t.Errorf("%s: %v", name, found)
		}
	}
	if mapped(nil, "") != nil {
		t.Error("no error became one")
	}
}

// Without its database every call says so, and none that it was carried out.
func TestADatabaseThatIsGoneIsSaid(t *testing.T) {
	s := serve(t, "BM-1")
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"GetOverview":      func() error { _, err := s.GetOverview(ctx, &availabilityv1.GetOverviewRequest{}); return err },
		"ListAvailability": func() error { _, err := s.ListAvailability(ctx, &availabilityv1.ListAvailabilityRequest{}); return err },
		"GetAvailability": func() error {
			_, err := s.GetAvailability(ctx, &availabilityv1.GetAvailabilityRequest{Server: "BM-1"})
			return err
		},
		"WatchAvailability": func() error {
			stream, err := s.WatchAvailability(ctx, &availabilityv1.WatchAvailabilityRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"ListOfflineLog": func() error {
			_, err := s.ListOfflineLog(ctx, &availabilityv1.ListOfflineLogRequest{Server: "BM-1"})
			return err
		},
		"OrderBrake": func() error {
			_, err := s.OrderBrake(ctx, &availabilityv1.OrderBrakeRequest{Path: 1, Order: 1, Actor: "a"})
			return err
		},
		"GetMaintenance": func() error {
			_, err := s.GetMaintenance(ctx, &availabilityv1.GetMaintenanceRequest{Server: "BM-1"})
			return err
		},
		"SetMaintenance": func() error {
			_, err := s.SetMaintenance(ctx, &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Reason: "r", Actor: "a"})
			return err
		},
		"ClearMaintenance": func() error {
			_, err := s.ClearMaintenance(ctx, &availabilityv1.ClearMaintenanceRequest{Server: "BM-1", Actor: "a"})
			return err
		},
		"ListMaintenanceWindows": func() error {
			_, err := s.ListMaintenanceWindows(ctx, &availabilityv1.ListMaintenanceWindowsRequest{Server: "BM-1"})
			return err
		},
		"CreateMaintenanceWindow": func() error {
			_, err := s.create(t, "BM-1", recurring("2026-01-01T00:00", "UTC", "FREQ=DAILY", 1e9))
			return err
		},
		"DeleteMaintenanceWindow": func() error {
			_, err := s.DeleteMaintenanceWindow(ctx, &availabilityv1.DeleteMaintenanceWindowRequest{Server: "BM-1", Id: 1, Actor: "a"})
			return err
		},
		"PreviewMaintenanceWindow": func() error {
			_, err := s.PreviewMaintenanceWindow(ctx, &availabilityv1.PreviewMaintenanceWindowRequest{Server: "BM-1", Rule: recurring("2026-01-01T00:00", "UTC", "FREQ=DAILY", 1e9)})
			return err
		},
	} {
		found := fault.From(call())
		if found == nil || found.Reason != fault.AvailabilityUnavailable || !strings.Contains(found.Detail, "nothing was changed") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A value that a rule of the tables refuses will be refused again: it is the caller's to mend, and no outage.
func TestI17_AValueTheDatabaseRefusesIsNoOutage(t *testing.T) {
	s := serve(t, "BM-1")
	s.run(t, `CREATE TRIGGER Refuse BEFORE INSERT ON TblMaintenanceSwitch BEGIN SELECT RAISE(ABORT, 'no'); END`)
	_, err := s.SetMaintenance(t.Context(), &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: "0", Reason: "r", Actor: "a"})
	refused(t, err, fault.InvalidArgument, "nothing was changed")
	if errors.Is(err, sqldb.ErrCommit) || s.maintenance(t, "BM-1").GetActive() {
		t.Error("it was changed")
	}
}
