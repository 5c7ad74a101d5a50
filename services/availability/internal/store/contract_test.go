package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// tables are all that tests look into.
var tables = []string{
	"TblServer", "TblServerOfflineLog", "TblJobLease", "TblAvailabilityStatus", "TblAvailabilityPath", "TblAvailabilityState",
	"TblMaintenanceSwitch", "TblMaintenanceWindow",
}

// database is one store, and the same database by hand, for what only another program would do to it.
type database struct {
	*store.Store
	raw     *sql.DB
	url     string
	dialect sqldb.Dialect
}

// open opens a fresh store: SQLite on a file always, and SQL Server where TEST_SQLSERVER_URL names a database, which is emptied.
func open(t *testing.T) *database {
	t.Helper()
	if server := os.Getenv("TEST_SQLSERVER_URL"); server != "" {
		d := openURL(t, server, "sqlserver", server)
		d.run(t, "DELETE FROM TblServer", "DELETE FROM TblServerOfflineLog", "DELETE FROM TblAvailabilityStatus", "DELETE FROM TblMaintenanceSwitch",
			"DELETE FROM TblMaintenanceWindow", "DELETE FROM TblAvailabilityPath", "INSERT INTO TblAvailabilityPath (Path) VALUES (0), (1)")
		d.expireLease(t)
		return d
	}
	return onSQLite(t)
}

// onSQLite opens a SQLite store, whatever else the suite runs on, after some statements by hand.
func onSQLite(t *testing.T, before ...string) *database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	return openURL(t, "sqlite:"+path, "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)", before...)
}

func openURL(t *testing.T, url, driver, name string, before ...string) *database {
	t.Helper()
	raw, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	d := &database{raw: raw, url: url, dialect: sqldb.Dialect(driver)}
	d.run(t, before...)
	d.Store = d.replica(t)
	if _, _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return d
}

// replica opens the same database once more, as another replica would.
func (d *database) replica(t *testing.T) *store.Store {
	t.Helper()
	opened, err := store.Open(d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func (d *database) run(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := d.raw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(statement, err)
		}
	}
}

// number reads one whole number.
func (d *database) number(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := d.raw.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(query, err)
	}
	return n
}

// server inserts a server as another codebase would, and returns its key.
func (d *database) server(t *testing.T, name, kind string, online int) int64 {
	t.Helper()
	d.run(t, fmt.Sprintf("INSERT INTO TblServer (Name, Type, Active, Online) VALUES ('%s', '%s', 1, %d)", name, kind, online))
	return d.number(t, "SELECT MAX(ServerKey) FROM TblServer")
}

// servers inserts BenefitManager servers that are online.
func (d *database) servers(t *testing.T, count int) []int64 {
	t.Helper()
	var keys []int64
	for i := range count {
		keys = append(keys, d.server(t, fmt.Sprintf("BM-%d", i+1), store.ServerType, 1))
	}
	return keys
}

// dump is everything that is stored, or only some tables of it.
func (d *database) dump(t *testing.T, of ...string) string {
	t.Helper()
	if of == nil {
		of = tables
	}
	var lines []string
	for _, table := range of {
		rows, err := d.raw.QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			line := table
			for i, column := range columns {
				line += fmt.Sprintf(" %s=%v", column, *values[i].(*any))
			}
			lines = append(lines, line)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (d *database) logged(t *testing.T) int64 {
	t.Helper()
	return d.number(t, "SELECT COUNT(*) FROM TblServerOfflineLog")
}

func (d *database) expireLease(t *testing.T) {
	t.Helper()
	d.run(t, "UPDATE TblJobLease SET ExpiresAt = '2000-01-01T00:00:00.000Z'")
}

func take(t *testing.T, s *store.Store, holder string) store.Lease {
	t.Helper()
	lease, taken, err := s.TakeLease(t.Context(), holder, time.Minute)
	if err != nil || !taken {
		t.Fatal(lease, taken, err)
	}
	return lease
}

func fleet(t *testing.T, s *store.Store) store.Fleet {
	t.Helper()
	read, err := s.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func record(t *testing.T, s *store.Store, sweep store.Sweep) store.Recorded {
	t.Helper()
	sweep.LeaseDuration = time.Minute
	recorded, err := s.Record(t.Context(), sweep)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func revision(t *testing.T, s *store.Store) int64 {
	t.Helper()
	overview, err := s.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return overview.Revision
}

var start = time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// silent is the status of a server that was turned offline for silence.
func silent(key int64) store.Status {
	return store.Status{
		Status: verdict.Status{
			Key: key, Since: at(100),
			Verdict: verdict.Verdict{Availability: verdict.Unavailable, Reason: verdict.HeartbeatSilent, HeardAt: at(1), Path: verdict.Direct},
		},
		Detail: "silent for 99 s",
	}
}

// fresh is the status of a server that was heard.
func fresh(key int64) store.Status {
	s := silent(key)
	s.Online, s.Detail, s.Verdict.Availability, s.Verdict.Reason = true, "heard", verdict.Available, verdict.HeartbeatFresh
	return s
}

func TestAStatusIsReadAsItWasWritten(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 4)
	held := fresh(keys[0])
	held.Verdict.Availability, held.Verdict.Reason = verdict.Unavailable, verdict.HeartbeatSilent
	held.Held, held.HeldPath = verdict.Frozen, verdict.Direct
	probed := store.Status{Status: verdict.Status{
		Key: keys[1], Maintenance: true, Since: at(7), Verdict: verdict.Verdict{Availability: verdict.Unknown, Reason: verdict.ProbeUndecided},
	}, Detail: "naïve \U0001F600 '\" \\"}
	turned := fresh(keys[0]) // differs from the first in everything
	turned.Detail, turned.Since, turned.Online, turned.Maintenance, turned.Verdict = "other", at(200), false, true, verdict.Verdict{Reason: verdict.NeverAccepted}
	token := take(t, d.Store, "a").Token
	for _, first := range []store.Status{held, turned, held} { // inserted, then updated
		written := map[int64]store.Status{keys[0]: first, keys[1]: probed, keys[2]: silent(keys[2])}
		record(t, d.Store, store.Sweep{Token: token, Statuses: []store.Status{first, probed, silent(keys[2])}})
		for _, server := range fleet(t, d.replica(t)).Servers {
			want := written[server.Key] // zero: not judged
			if server.Status != want.Status || server.Detail != want.Detail {
				t.Fatalf("%+v\nwas written as\n%+v", server, want)
			}
		}
	}
	long := silent(keys[3])
	long.Detail = strings.Repeat("\U0001F600", 5000)
	record(t, d.Store, store.Sweep{Token: token, Statuses: []store.Status{long}})
	if server, err := d.StatusOf(t.Context(), "bm-4"); err != nil || server.Detail != strings.Repeat("\U0001F600", 1024) {
		t.Fatal("a long text must be cut", len(server.Detail), err)
	}
}

func TestFleetIsWhatIsJudged(t *testing.T) {
	d := open(t)
	other := d.server(t, "X-1", "Other", 1)
	keys := d.servers(t, 3)
	d.run(t, "INSERT INTO TblServer (Name, Active, Online) VALUES ('N-1', 1, 1)")
	acts := fleet(t, d.Store).Acts
	for i, name := range []string{"BM-1", "BM-1", "BM-2"} {
		if _, _, err := d.AddWindow(t.Context(), name, store.Window{StartAt: at(i), EndAt: at(100_000), Reason: "r"}, "me", ""); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, fmt.Sprintf("UPDATE TblMaintenanceWindow SET ServerKey = %d WHERE ServerKey = %d", other, keys[1]))
	if _, _, err := d.AddWindow(t.Context(), "BM-3", store.Window{Start: "2026-03-29T02:30", Zone: "Europe/Amsterdam", Rule: "FREQ=DAILY", Duration: 90 * time.Minute, Reason: "nightly"}, "me", ""); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.SetSwitch(t.Context(), "BM-2", "0", true, "why", store.End{At: at(100_000)}, "me"); err != nil {
		t.Fatal(err)
	}
	d.run(t, "UPDATE TblMaintenanceWindow SET LastEndAt = '2000-01-01T00:00:00.000Z' WHERE WindowKey = (SELECT MIN(WindowKey) FROM TblMaintenanceWindow)")
	read := fleet(t, d.Store)
	if len(read.Servers) != 3 || len(read.Windows) != 2 || read.Acts != acts+5 || time.Since(read.ReadAt).Abs() > time.Hour {
		t.Fatalf("%+v", read)
	}
	for i, server := range read.Servers {
		if server.Key != keys[i] || server.Name != fmt.Sprintf("BM-%d", i+1) || !server.Online || server.Status != (verdict.Status{}) {
			t.Fatalf("%+v", server)
		}
	}
	if turned := read.Servers[1].Switch; !turned.On || turned.Reason != "why" || !turned.EndAt.Equal(at(100_000)) || turned.ChangedBy != "me" || read.Servers[0].Switch != (store.Switch{}) {
		t.Fatalf("%+v", turned)
	}
	recurring := read.Windows[1]
	if recurring.ServerKey != keys[2] || recurring.Rule != "FREQ=DAILY" || recurring.Zone != "Europe/Amsterdam" || recurring.Start != "2026-03-29T02:30" ||
		recurring.Duration != 90*time.Minute || !recurring.LastEndAt.IsZero() || !recurring.StartAt.IsZero() || !recurring.EndAt.IsZero() {
		t.Fatalf("%+v", recurring)
	}
	if once := read.Windows[0]; once.ServerKey != keys[0] || !once.StartAt.Equal(at(1)) || !once.EndAt.Equal(at(100_000)) || !once.LastEndAt.Equal(once.EndAt) || once.CreatedBy != "me" {
		t.Fatalf("%+v", once)
	}
}
