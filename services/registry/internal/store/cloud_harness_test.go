package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// world is a SQLite file that two replicas of the registry have open, and the test by hand: only so does time pass without waiting.
type world struct {
	t        testing.TB
	store    *store.Store // one's
	other    *store.Store // two's
	one, two *store.Cloud
	raw      *sql.DB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	w := &world{t: t, raw: raw}
	replica := func() *store.Store {
		opened, err := store.Open("sqlite:"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	w.store = replica()
	if _, _, err := w.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.other = replica()
	w.one, w.two = w.store.Cloud(cloud.DefaultLimits()), w.other.Cloud(cloud.DefaultLimits())
	return w
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	if _, err := w.raw.ExecContext(w.t.Context(), text, args...); err != nil {
		w.t.Fatal(text, err)
	}
}

// rows is what a query gives, as text.
func (w *world) rows(query string) string {
	w.t.Helper()
	found, err := w.raw.QueryContext(w.t.Context(), query)
	if err != nil {
		w.t.Fatal(query, err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		w.t.Fatal(err)
	}
	var text strings.Builder
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(dest...); err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintln(&text, values...)
	}
	if err := found.Err(); err != nil {
		w.t.Fatal(err)
	}
	return text.String()
}

// dump is everything stored of the cloud, but leases.
func (w *world) dump() string {
	w.t.Helper()
	return w.rows(`SELECT ControlServerKey, Name, GrpcEndpoint, RestEndpoint, Mode, Weight, Standby, AffinityGroupKey, ChangedBy, DecisionVersion, Listed, UnlistedAt, UnlistedAs FROM TblControlServer`) +
		w.rows(`SELECT * FROM TblAffinityGroup`) + w.rows(`SELECT * FROM TblCloudState`) + w.rows(`SELECT * FROM TblPartitionEvent`) +
		w.rows(`SELECT AgentKey, AffinityGroupKey, PrimaryControlServerKey, SecondaryControlServerKey FROM TblAgent`)
}

// enlist makes agents BM-000001 to BM-n.
func (w *world) enlist(n int) {
	w.t.Helper()
	w.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
		SELECT printf('BM-%06d', i), printf('bm-%06d', i), '', 2, 1, '2026-01-02T03:04:05.000Z' FROM n WHERE true ON CONFLICT DO NOTHING`, n)
}

func candidate(name string) cloud.Candidate {
	return cloud.Candidate{Name: name, Endpoints: []string{name + ":8443"}, Version: "1.0", Protocols: cloud.Protocols{Min: 1, Max: 2}}
}

// join lets control servers join, or renew.
func (w *world) join(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if _, _, err := w.one.Renew(w.t.Context(), candidate(name), store.Reported{Connected: 0}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// silence lets a control server have renewed for the last time that long ago.
func (w *world) silence(name string, since time.Duration) {
	w.t.Helper()
	w.exec(`UPDATE TblControlServer SET RenewedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE Name = ?`, fmt.Sprintf("-%d seconds", int(since.Seconds())), name)
}

func (w *world) situation(replica *store.Cloud) (store.Situation, cloud.Partition) {
	w.t.Helper()
	s, err := replica.Situation(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := s.Directory.Repartition(s.Membership, s.Agents)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, p
}

// settle spreads the agents.
func (w *world) settle() cloud.Event {
	w.t.Helper()
	s, p := w.situation(w.one)
	event, err := w.one.Commit(w.t.Context(), s, p)
	if err != nil {
		w.t.Fatal(err)
	}
	return event
}

func (w *world) expectUnchanged(when string) {
	w.t.Helper()
	if _, p := w.situation(w.two); !p.Unchanged() {
		w.t.Fatalf("%s: %v, %d moves", when, p.Changes, len(p.Moves))
	}
}

func (w *world) overview() store.Overview {
	w.t.Helper()
	overview, err := w.two.Overview(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return overview
}

func (w *world) server(name string) store.ControlServer {
	w.t.Helper()
	for _, s := range w.overview().Servers {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("no control server %s", name)
	return store.ControlServer{}
}

// update changes a control server as it is now.
func (w *world) update(name string, change store.ControlServerChange) store.ControlServer {
	w.t.Helper()
	after, err := w.one.UpdateServer(w.t.Context(), parsed(w.t, name), w.server(name).Etag(), change, "anna")
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

func parsed(t testing.TB, text string) enrollment.Name {
	t.Helper()
	name, err := enrollment.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func names(t testing.TB, texts ...string) []enrollment.Name {
	var all []enrollment.Name
	for _, text := range texts {
		all = append(all, parsed(t, text))
	}
	return all
}

// refusedAs is the reason and the holder of a refusal.
func refusedAs(err error) (cloud.Reason, string) {
	var refusal *cloud.Refusal
	if errors.As(err, &refusal) {
		return refusal.Reason, refusal.Holder
	}
	return 0, ""
}

// refuses tries what must be refused with an error of a kind, and must change nothing.
func refuses[E error](w *world, what string, try func() error) {
	w.t.Helper()
	before := w.dump()
	var want E
	if err := try(); !errors.As(err, &want) {
		w.t.Errorf("%s: %v, want a %T", what, err, want)
	}
	if after := w.dump(); after != before {
		w.t.Errorf("%s: it was refused, and changed\n%s\nto\n%s", what, before, after)
	}
}
