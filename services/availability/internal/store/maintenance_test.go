package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

func acts(t *testing.T, s *store.Store) int64 {
	t.Helper()
	counted, err := s.Acts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// The job takes TblServer before the one row of the state, and so do operators' acts: the other way round they would lock each other.
func TestActsReadTheServerFirst(t *testing.T) {
	d := onSQLite(t)
	broken := withStatement(t, d, "advance", "SELECT x FROM Nowhere")
	for what, act := range map[string]func() error{
		"add": func() error {
			_, _, err := broken.AddWindow(t.Context(), "BM-9", store.Window{}, "ann", "")
			return err
		},
		"delete": func() error { return broken.DeleteWindow(t.Context(), "BM-9", 1) },
		"turn": func() error {
			_, _, _, err := broken.SetSwitch(t.Context(), "BM-9", "0", true, "why", store.End{}, "ann")
			return err
		},
	} {
		var missing *store.ServerNotFoundError
		if err := act(); !errors.As(err, &missing) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheSwitchIsTurned(t *testing.T) {
	d := open(t)
	d.servers(t, 1)
	set := func(etag string, on bool, reason string, endAt time.Time) (store.Server, error) {
		server, _, _, err := d.SetSwitch(t.Context(), "bm-1", etag, on, reason, store.End{At: endAt}, "ann")
		if read, _, now, readErr := d.Maintenance(t.Context(), "BM-1"); readErr != nil || err == nil && (read != server || now.IsZero()) {
			t.Fatalf("%+v\nwas read as\n%+v %v", server, read, readErr)
		}
		return server, err
	}
	counted, shown := acts(t, d.Store), revision(t, d.Store)
	off, err := set("0", false, "", time.Time{})
	if err != nil || off.Switch != (store.Switch{}) || off.Switch.Etag() != "0" || acts(t, d.Store) != counted {
		t.Fatalf("what is off is turned off: %+v %v", off, err)
	}
	endAt := time.Now().UTC().Add(time.Hour).Truncate(time.Millisecond)
	on, err := set("0", true, "disk", endAt)
	if err != nil || !on.Switch.On || on.Switch.Reason != "disk" || !on.Switch.EndAt.Equal(endAt) || on.Switch.ChangedBy != "ann" || on.Switch.ChangedAt.IsZero() || on.Switch.Version != 1 {
		t.Fatalf("%+v %v", on, err)
	}
	if acts(t, d.Store) != counted+1 || revision(t, d.Store) <= shown {
		t.Fatal("an act must be counted, and show")
	}
	longer, err := set(on.Switch.Etag(), true, "two disks", time.Time{})
	if err != nil || longer.Switch.Reason != "two disks" || !longer.Switch.EndAt.IsZero() || longer.Switch.Etag() == on.Switch.Etag() {
		t.Fatalf("%+v %v", longer, err)
	}
	before := d.dump(t)
	var stale *store.StaleEtagError
	var required *store.EtagRequiredError
	var past *store.PastError
	if _, err := set(on.Switch.Etag(), false, "", time.Time{}); !errors.As(err, &stale) || stale.Current != longer.Switch.Etag() {
		t.Fatal(err)
	}
	if _, err := set("", false, "", time.Time{}); !errors.As(err, &required) || required.Current != longer.Switch.Etag() {
		t.Fatal(err)
	}
	if _, err := set(longer.Switch.Etag(), true, "r", at(0)); !errors.As(err, &past) || past.Now.IsZero() {
		t.Fatal(err)
	}
	if after := d.dump(t); after != before {
		t.Fatalf("a refusal changed\n%s\nto\n%s", before, after)
	}
	ended, err := set(longer.Switch.Etag(), false, "", endAt)
	if err != nil || ended.Switch.On || !ended.Switch.EndAt.IsZero() || ended.Switch.ChangedBy != "ann" {
		t.Fatalf("%+v %v", ended, err)
	}
	if again, err := set(ended.Switch.Etag(), false, "", time.Time{}); err != nil || again != ended {
		t.Fatalf("%+v %v", again, err)
	}
	// One that ended by itself is off, too.
	if _, err := set(ended.Switch.Etag(), true, "r", endAt); err != nil {
		t.Fatal(err)
	}
	d.run(t, "UPDATE TblMaintenanceSwitch SET EndAt = '2000-01-01T00:00:00.000Z'")
	counted = acts(t, d.Store)
	if over, err := set("4", false, "", time.Time{}); err != nil || over.Switch.Etag() != "4" || acts(t, d.Store) != counted {
		t.Fatalf("%+v %v", over, err)
	}
}

func TestI14_OfTwoTurnsAtOnceOneWins(t *testing.T) {
	d := open(t)
	d.servers(t, 1)
	other := d.replica(t)
	for turn := range 10 { // the first makes the row, the others change it
		failures := make(chan error, 2)
		for operator, s := range map[string]*store.Store{"ann": d.Store, "bob": other} {
			go func() {
				_, _, _, err := s.SetSwitch(context.WithoutCancel(t.Context()), "BM-1", fmt.Sprint(turn), turn%2 == 0, "r", store.End{}, operator)
				failures <- err
			}()
		}
		one, two := <-failures, <-failures
		var stale *store.StaleEtagError
		if (one == nil) == (two == nil) || !errors.As(errors.Join(one, two), &stale) || stale.Current != fmt.Sprint(turn+1) {
			t.Fatal(turn, one, two)
		}
	}
}

// Nothing comes between read and write in SQLite, so that the guard is tried by itself.
func TestI14_ATurnFromAnOldReadChangesNothing(t *testing.T) {
	d := open(t)
	key := d.servers(t, 1)[0]
	for etag := range 2 {
		if _, _, _, err := d.SetSwitch(t.Context(), "BM-1", fmt.Sprint(etag), true, "r", store.End{}, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := sqldb.Statements(store.Statements(), d.dialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{1, 3, 2} {
		want := int64(0)
		if version == 2 { // what is stored
			want = 1
		}
		before := d.dump(t)
		result, err := d.raw.ExecContext(t.Context(), text["update_switch"], sql.Named("serverKey", key), sql.Named("version", version), sql.Named("isOn", 0),
			sql.Named("reason", ""), sql.Named("endAt", nil), sql.Named("changedBy", "bob"), sql.Named("changedAt", at(1).Format(time.RFC3339)))
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := result.RowsAffected(); err != nil || rows != want || (d.dump(t) == before) != (want == 0) {
			t.Errorf("version %d changed %d rows, want %d: %v", version, rows, want, err)
		}
	}
}

func TestWindowsAreAddedAndDeleted(t *testing.T) {
	d := open(t)
	key := d.servers(t, 2)[0]
	counted := acts(t, d.Store)
	endAt := time.Now().UTC().Add(time.Hour).Truncate(time.Millisecond)
	once, now, err := d.AddWindow(t.Context(), "bm-1", store.Window{StartAt: at(0), EndAt: endAt, Reason: "disk"}, "ann", "")
	if err != nil || once.ID == 0 || once.ServerKey != key || once.CreatedBy != "ann" || !once.CreatedAt.Equal(now) || !once.LastEndAt.Equal(endAt) {
		t.Fatalf("%+v %v", once, err)
	}
	daily := store.Window{Start: "2026-03-29T02:30", Zone: "Europe/Amsterdam", Rule: "FREQ=DAILY;COUNT=3", Duration: time.Nanosecond, Reason: "r", LastEndAt: endAt.Add(time.Nanosecond)}
	recurring, _, err := d.AddWindow(t.Context(), "BM-1", daily, "bob", "")
	if err != nil || recurring.Duration != time.Millisecond || !recurring.LastEndAt.Equal(endAt.Add(time.Millisecond)) {
		t.Fatalf("the shortest window must not vanish: %+v %v", recurring, err)
	}
	server, windows, _, err := d.Maintenance(t.Context(), "BM-1")
	if err != nil || server.Key != key || len(windows) != 2 || windows[0] != once || windows[1] != recurring {
		t.Fatalf("%+v\nis not\n%+v\n%+v %v", windows, once, recurring, err)
	}
	if acts(t, d.Store) != counted+2 {
		t.Fatal("acts must be counted")
	}
	before := d.dump(t)
	var past *store.PastError
	if _, _, err := d.AddWindow(t.Context(), "BM-1", store.Window{StartAt: at(0), EndAt: at(1)}, "ann", ""); !errors.As(err, &past) {
		t.Fatal(err)
	}
	daily.LastEndAt = at(1)
	if _, _, err := d.AddWindow(t.Context(), "BM-1", daily, "ann", ""); !errors.As(err, &past) {
		t.Fatal(err)
	}
	var missing *store.WindowNotFoundError
	if err := d.DeleteWindow(t.Context(), "BM-2", once.ID); !errors.As(err, &missing) {
		t.Fatal("a window of another server", err)
	}
	if after := d.dump(t); after != before {
		t.Fatalf("a refusal changed\n%s\nto\n%s", before, after)
	}
	if err := d.DeleteWindow(t.Context(), "BM-1", once.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteWindow(t.Context(), "BM-1", once.ID); !errors.As(err, &missing) || missing.ID != once.ID {
		t.Fatal(err)
	}
	if _, windows, _, err = d.Maintenance(t.Context(), "BM-1"); err != nil || len(windows) != 1 || acts(t, d.Store) != counted+3 {
		t.Fatal(windows, err)
	}
	d.run(t, "UPDATE TblMaintenanceWindow SET LastEndAt = '2000-01-01T00:00:00.000Z'")
	if _, windows, _, err = d.Maintenance(t.Context(), "BM-1"); err != nil || len(windows) != 0 {
		t.Fatal("a window that ended for good is left out", windows, err)
	}
}

func TestAServerHasAtMostAHundredWindows(t *testing.T) {
	d := open(t)
	d.servers(t, 2)
	s := []*store.Store{d.Store, d.replica(t)}
	window := store.Window{StartAt: at(0), EndAt: time.Now().Add(time.Hour)}
	for i := range store.MaxWindows - 1 {
		if _, _, err := s[i%2].AddWindow(t.Context(), "BM-1", window, "ann", ""); err != nil {
			t.Fatal(i, err)
		}
	}
	failures := make(chan error, 2)
	for _, s := range s {
		go func() {
			_, _, err := s.AddWindow(context.WithoutCancel(t.Context()), "BM-1", window, "ann", "")
			failures <- err
		}()
	}
	one, two := <-failures, <-failures
	var many *store.TooManyError
	if (one == nil) == (two == nil) || !errors.As(errors.Join(one, two), &many) {
		t.Fatal(one, two)
	}
	if _, _, err := d.AddWindow(t.Context(), "BM-2", window, "ann", ""); err != nil {
		t.Fatal(err)
	}
	d.run(t, "UPDATE TblMaintenanceWindow SET LastEndAt = '2000-01-01T00:00:00.000Z' WHERE WindowKey = (SELECT MIN(WindowKey) FROM TblMaintenanceWindow)")
	if _, _, err := d.AddWindow(t.Context(), "BM-1", window, "ann", ""); err != nil {
		t.Fatal("one that ended for good does not count", err)
	}
}

// One request may come twice, to two replicas at once: it makes one window.
func TestAWindowIsMadeOnceUnderAKey(t *testing.T) {
	d := open(t)
	d.servers(t, 2)
	replicas := []*store.Store{d.Store, d.replica(t)}
	const key = "6f1d1c5e-0000-4000-8000-000000000001"
	window := store.Window{Start: "2097-03-29T22:00", Zone: "Europe/Amsterdam", Rule: "FREQ=DAILY", Ends: "06:00", Reason: "disk"}
	add := func(s *store.Store, server string, w store.Window, actor string) (store.Window, error) {
		added, now, err := s.AddWindow(context.WithoutCancel(t.Context()), server, w, actor, key)
		if err == nil && now.IsZero() {
			err = errors.New("the database's time is missing")
		}
		return added, err
	}
	made := make(chan store.Window)
	for i := range 8 {
		go func() {
			added, err := add(replicas[i%2], "BM-1", window, "ann")
			if err != nil {
				t.Error(err)
			}
			made <- added
		}()
	}
	first := <-made
	for range 7 {
		if again := <-made; again != first || again.ID == 0 {
			t.Errorf("%+v\nis not\n%+v", again, first)
		}
	}
	counted := acts(t, d.Store)
	if _, windows, _, err := d.Maintenance(t.Context(), "BM-1"); err != nil || len(windows) != 1 || windows[0] != first {
		t.Fatal(windows, err)
	}
	before := d.dump(t)
	other := window
	other.Reason = "disks"
	var reused *store.KeyReusedError
	for _, err := range []error{
		second(add(d.Store, "BM-1", other, "ann")), second(add(d.Store, "BM-2", window, "ann")), second(add(d.Store, "BM-1", window, "bob")),
	} {
		if !errors.As(err, &reused) || reused.Key != key {
			t.Error("another request under the key:", err)
		}
	}
	if after := d.dump(t); after != before || acts(t, d.Store) != counted {
		t.Fatalf("asking again changed\n%s\nto\n%s", before, after)
	}
	if err := d.DeleteWindow(t.Context(), "BM-1", first.ID); err != nil {
		t.Fatal(err)
	}
	var gone *store.MadeAndGoneError
	if _, err := add(d.Store, "BM-1", window, "ann"); !errors.As(err, &gone) || gone.ID != first.ID {
		t.Fatal("what an operator deleted must not come back by a late repetition:", err)
	}
	d.run(t, "UPDATE TblMaintenanceKey SET CreatedAt = '2000-01-01T00:00:00.000Z'")
	if _, _, err := d.AddWindow(t.Context(), "BM-2", window, "ann", "6f1d1c5e-0000-4000-8000-000000000002"); err != nil {
		t.Fatal(err)
	}
	if again, err := add(d.Store, "BM-1", window, "ann"); err != nil || again.ID == first.ID {
		t.Fatal("a key is forgotten after a day:", again, err)
	}
}

func second[T any](_ T, err error) error { return err }

// What ends by the wall is kept so, with the duration that the release before this one reads.
func TestAWindowThatEndsByTheWallIsKept(t *testing.T) {
	d := open(t)
	d.servers(t, 1)
	added, _, err := d.AddWindow(t.Context(), "BM-1", store.Window{Start: "2097-03-29T22:00", Zone: "Europe/Amsterdam", Rule: "FREQ=DAILY", Ends: "06:00"}, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	_, windows, _, err := d.Maintenance(t.Context(), "BM-1")
	if err != nil || len(windows) != 1 || windows[0] != added || added.Ends != "06:00" || added.Duration != 0 {
		t.Fatalf("%+v\nis not\n%+v %v", windows, added, err)
	}
	var milliseconds int64
	if err := d.raw.QueryRowContext(t.Context(), "SELECT DurationMs FROM TblMaintenanceWindow").Scan(&milliseconds); err != nil || milliseconds != (8*time.Hour).Milliseconds() {
		t.Fatal(milliseconds, err)
	}
}

func TestASwitchEndsAfterADuration(t *testing.T) {
	d := open(t)
	d.servers(t, 1)
	server, _, now, err := d.SetSwitch(t.Context(), "BM-1", "0", true, "disk", store.End{In: 2 * time.Hour}, "ann")
	if err != nil || !server.Switch.EndAt.Equal(now.Add(2*time.Hour)) {
		t.Fatalf("%+v at %s: %v", server.Switch, now, err)
	}
}
