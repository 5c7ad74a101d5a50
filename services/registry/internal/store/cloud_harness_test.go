package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// world is a database that two replicas of the registry have open, and the test by hand: only so does time pass without waiting.
type world struct {
	t        testing.TB
	store    *store.Store // one's
	other    *store.Store // two's
	one, two *store.Cloud
	raw      *sqldbtest.Database
}

func newWorld(t testing.TB, engine sqldbtest.Engine) *world {
	t.Helper()
	w := &world{t: t, raw: engine.Empty(t)}
	w.store, w.other = openAt(t, w.raw), openAt(t, w.raw)
	w.one, w.two = w.store.Cloud(cloud.DefaultLimits()), w.other.Cloud(cloud.DefaultLimits())
	return w
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	w.raw.Exec(w.t, text, args...)
}

// rows is what a query gives, as text.
func (w *world) rows(query string) string {
	w.t.Helper()
	return w.raw.Text(w.t, query)
}

// dump is everything stored of the cloud, but leases.
func (w *world) dump() string {
	w.t.Helper()
	return w.rows(`SELECT ControlServerKey, Name, GrpcEndpoint, RestEndpoint, Mode, Weight, Standby, AffinityGroupKey, ChangedBy, DecisionVersion, Listed, UnlistedAt, UnlistedAs FROM TblControlServer ORDER BY ControlServerKey`) +
		w.rows(`SELECT * FROM TblAffinityGroup ORDER BY GroupKey`) + w.rows(`SELECT * FROM TblCloudState`) + w.rows(`SELECT * FROM TblPartitionEvent ORDER BY Epoch`) +
		w.rows(`SELECT AgentKey, AffinityGroupKey, PrimaryControlServerKey, SecondaryControlServerKey FROM TblAgent ORDER BY AgentKey`)
}

// enlist makes agents BM-000001 to BM-n, as far as they are not there.
func (w *world) enlist(n int) {
	w.t.Helper()
	enlist(w.t, w.raw, n, "BM-%06d")
}

// enlist makes accepted agents of a name with a number from 1 to n, as far as they are not there, in the order of their numbers.
func enlist(t testing.TB, db *sqldbtest.Database, n int, format string) {
	t.Helper()
	for first := 1; first <= n; first += 1000 {
		var batch [][]any
		for i := first; i < min(first+1000, n+1); i++ {
			name := fmt.Sprintf(format, i)
			batch = append(batch, []any{name, strings.ToLower(name)})
		}
		encoded, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		db.Exec(t, db.Of(`INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
			SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), '', 2, 1, '2026-01-02T03:04:05.000Z' FROM json_each(@p1) WHERE true ORDER BY key ON CONFLICT DO NOTHING`,
			`INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
			SELECT v.Name, v.NameKey, N'', 2, 1, '2026-01-02T03:04:05.000' FROM OPENJSON(@p1) WITH (Name nvarchar(128) '$[0]', NameKey nvarchar(512) '$[1]') v
			WHERE NOT EXISTS (SELECT 1 FROM TblAgent a WHERE a.NameKey = v.NameKey COLLATE Latin1_General_BIN2) ORDER BY v.Name`), string(encoded))
	}
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
	w.exec(`UPDATE TblControlServer SET RenewedAt = `+w.raw.Since(w.raw.Now(), int(since.Seconds()))+` WHERE Name = @p1`, name)
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
