package store_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlc-dev/teesql/ast"
	"github.com/sqlc-dev/teesql/parser"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func fleetOf(t *testing.T, s *store.Store) store.Fleet {
	t.Helper()
	fleet, err := s.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

func TestAnEmptyFleetHasItsClockAndBothPaths(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		fleet := fleetOf(t, s)
		if fleet.ReadAt.IsZero() || len(fleet.Servers) != 0 {
			t.Fatalf("%+v", fleet)
		}
		for _, path := range []store.PathEvidence{fleet.Bus, fleet.Direct} {
			if path.Healthy || !path.Since.IsZero() || !path.ReportedAt.IsZero() || path.Backlog != 0 || !path.HeardAt.IsZero() || path.Detail == "" {
				t.Errorf("%+v", path)
			}
		}
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		before := read(t, s, "BM-1").ReadAt
		between := fleetOf(t, s).ReadAt
		if after := read(t, s, "BM-1").ReadAt; between.Before(before) || after.Before(between) {
			t.Fatalf("the database's clock was at %s, the fleet's at %s, the database's at %s", before, between, after)
		}
	})
}

func TestFleetServers(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "bm-1", "a", 1, at(1)), enrolling(direct(t, "BM-2", "machine", 3, at(7))), beat(t, "BM-2", "machine", 2, at(5)))
		one, two := accept(t, s, "BM-1", true), accept(t, s, "BM-2", true)
		if _, err := s.Reject(t.Context(), name(t, "BM-2"), two.Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		const base, succeeded, failed = "http://127.0.0.1:9", 1, 2
		added, _, err := s.Add(t.Context(), name(t, "QA-1"), base, &store.Server{URL: "https://qa"}, "tester")
		if err != nil {
			t.Fatal(err)
		}
		want := []store.FleetServer{
			{Key: one.ServerKey, Agent: "bm-1", State: enrollment.Accepted, LastBusAt: at(1)},
			{Key: two.ServerKey, Agent: "BM-2", State: enrollment.Rejected, LastBusAt: at(5), LastDirectAt: at(7)},
			{Key: added.ServerKey, Agent: "QA-1", State: enrollment.Accepted, HTTPBaseURL: base},
		}
		if got := fleetOf(t, s).Servers; !slices.Equal(got, want) {
			t.Fatalf("\n%+v, want\n%+v", got, want)
		}
		for _, outcome := range []int{succeeded, failed} {
			if _, recorded, err := s.RecordVerification(t.Context(), name(t, "QA-1"), store.Verification{BaseURL: base, Outcome: outcome}); err != nil || !recorded {
				t.Fatal(recorded, err)
			}
			want[2].HTTPVerified = outcome == succeeded
			if got := fleetOf(t, s).Servers; !slices.Equal(got, want) {
				t.Fatalf("\n%+v, want\n%+v", got, want)
			}
		}
	})
}

func TestI12_AgentsNobodyAcceptedAreNoServersOfTheFleet(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1)), beat(t, "BM-3", "a", 1, at(1)))
		if _, err := s.Reject(t.Context(), name(t, "BM-2"), read(t, s, "BM-2").Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), name(t, "BM-3"), read(t, s, "BM-3").Etag()); err != nil {
			t.Fatal(err)
		}
		if fleet := fleetOf(t, s); len(fleet.Servers) != 0 {
			t.Fatalf("%+v", fleet.Servers)
		}
	})
}

func TestI11_WhoeverIsHeardProvesThatSomebodyIs(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(10)), enrolling(direct(t, "BM-2", "machine", 1, at(30))))
		accept(t, s, "BM-1", true)
		check := func(what string, bus, direct time.Time) {
			t.Helper()
			if fleet := fleetOf(t, s); !fleet.Bus.HeardAt.Equal(bus) || !fleet.Direct.HeardAt.Equal(direct) {
				t.Errorf("%s: heard at %s over the bus and at %s directly, want %s and %s", what, fleet.Bus.HeardAt, fleet.Direct.HeardAt, bus, direct)
			}
		}
		check("an accepted and a pending one", at(10), at(30))
		record(t, s, beat(t, "BM-3", "a", 1, at(20)))
		check("a pending one", at(20), at(30))
		if _, err := s.Reject(t.Context(), name(t, "BM-3"), read(t, s, "BM-3").Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		record(t, s, beat(t, "BM-3", "a", 2, at(25)))
		check("a rejected one", at(25), at(30))
		record(t, s, beat(t, "BM-1", "a", 2, at(15)))
		check("an older one", at(25), at(30))
	})
}

// The rules are those of GetAgent and of the answer to a report.
func TestI11_TheFleetsEvidenceIsTheHealthThatReportsAreAnswered(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		second, minute := time.Second, time.Minute
		for _, report := range []store.Evidence{
			{Path: enrollment.Direct, Consumer: "one"},
			{Path: enrollment.Bus, Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &minute},
			{Path: enrollment.Bus, Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &second},
			{Path: enrollment.Bus, Consumer: "two", CanaryRoundTrip: &second},
			{Path: enrollment.Bus, Consumer: "one"},
		} {
			answered, _, err := s.ReportEvidence(t.Context(), report)
			if err != nil {
				t.Fatal(err)
			}
			fleet := fleetOf(t, s)
			found := map[enrollment.Path]store.PathEvidence{enrollment.Bus: fleet.Bus, enrollment.Direct: fleet.Direct}[report.Path]
			if found.Health != answered || found.ReportedAt.IsZero() || found.ReportedAt.After(fleet.ReadAt) {
				t.Errorf("%+v: the fleet has %+v, the report was answered %+v", report, found, answered)
			}
			if want := answered.Healthy; (found.Backlog == second) != want || (found.Backlog == 0) == want {
				t.Errorf("%+v: backlog %s", report, found.Backlog)
			}
			if _, asked, err := s.Agent(t.Context(), name(t, "BM-1"), report.Path); err != nil || asked != found.Health {
				t.Errorf("%+v: GetAgent is answered %+v: %v", report, asked, err)
			}
		}
	})
}

func TestI11_EvidenceOfSeveralConsumers(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	const canary = int64(5)
	good := func(alive, since int, oldest int64) store.Proof {
		return store.Proof{ago(alive), ago(since), canary, oldest}
	}
	for what, row := range map[string]struct {
		proofs                 []store.Proof
		reported, healthySince time.Time
		backlog                time.Duration
		detail                 string
	}{
		"nobody":                                 {detail: "ever reported"},
		"one that is good":                       {proofs: []store.Proof{good(1, 60, 700)}, reported: ago(1), healthySince: ago(60), backlog: 700 * time.Millisecond},
		"nothing waits":                          {proofs: []store.Proof{good(1, 60, 0)}, reported: ago(1), healthySince: ago(60)},
		"one that was good":                      {proofs: []store.Proof{good(15, 60, 700)}, reported: ago(15), detail: "within 15s"},
		"only just heard":                        {proofs: []store.Proof{good(14, 60, 700)}, reported: ago(14), healthySince: ago(60), backlog: 700 * time.Millisecond},
		"no canary":                              {proofs: []store.Proof{{ago(1), time.Time{}, nil, int64(700)}}, reported: ago(1), detail: "no canary"},
		"no backlog to be seen":                  {proofs: []store.Proof{{ago(1), time.Time{}, canary, nil}}, reported: ago(1), detail: "backlog"},
		"the newest good one tells the backlog":  {proofs: []store.Proof{good(9, 600, 900), good(3, 60, 300), good(6, 90, 600)}, reported: ago(3), healthySince: ago(600), backlog: 300 * time.Millisecond},
		"a newer bad one only tells that it is":  {proofs: []store.Proof{good(9, 600, 900), {ago(1), time.Time{}, canary, int64(60_000)}}, reported: ago(1), healthySince: ago(600), backlog: 900 * time.Millisecond},
		"a good one that is gone tells nothing":  {proofs: []store.Proof{good(20, 6000, 100), good(9, 60, 900)}, reported: ago(9), healthySince: ago(60), backlog: 900 * time.Millisecond},
		"a good one that is gone beside bad one": {proofs: []store.Proof{good(20, 6000, 100), {ago(2), time.Time{}, nil, int64(1)}}, reported: ago(2), detail: "no canary"},
	} {
		for range 2 { // in either order
			got := store.EvidenceOf(now, row.proofs...)
			if !got.ReportedAt.Equal(row.reported) || !got.Since.Equal(row.healthySince) || got.Healthy == row.healthySince.IsZero() || got.Backlog != row.backlog {
				t.Errorf("%s: %+v", what, got)
			}
			if (row.detail == "") != (got.Detail == "") {
				t.Errorf("%s: %q", what, got.Detail)
			}
			slices.Reverse(row.proofs)
		}
		if got := store.EvidenceOf(now, row.proofs...); !strings.Contains(got.Detail, row.detail) {
			t.Errorf("%s: %q, want %q in it", what, got.Detail, row.detail)
		}
	}
}

func TestOfAServerReadTwiceTheLinkCounts(t *testing.T) {
	linked, ended, other := store.FleetServer{Key: 5, Agent: "new"}, store.FleetServer{Key: 5, Agent: "old", Removed: true}, store.FleetServer{Key: 3, Removed: true}
	for _, read := range [][]store.FleetServer{{linked, ended, other}, {ended, other, linked}, {other, linked, ended}} {
		if got := store.EachOnce(slices.Clone(read)); !slices.Equal(got, []store.FleetServer{other, linked}) {
			t.Errorf("%+v became %+v", read, got)
		}
	}
}

// A branch of a union that lacked a column, or had one of another kind, would show on SQL Server only.
func TestTheBranchesOfTheFleetFit(t *testing.T) {
	for _, dialect := range []sqldb.Dialect{sqldb.SQLServer, sqldb.SQLite} {
		statements, err := sqldb.Statements(store.Statements(), dialect)
		if err != nil {
			t.Fatal(err)
		}
		script, err := parser.Parse(t.Context(), strings.NewReader(statements["fleet"]))
		if err != nil {
			t.Fatal(err)
		}
		var columns []int
		walk(reflect.ValueOf(script), func(node any) {
			if branch, ok := node.(*ast.QuerySpecification); ok {
				columns = append(columns, len(branch.SelectElements))
			}
		})
		if !slices.Equal(columns, []int{8, 8, 8, 8, 8, 8, 8}) {
			t.Errorf("%s: %v columns", dialect, columns)
		}
		if dialect == sqldb.SQLServer && strings.Contains(strings.NewReplacer("CAST(NULL AS ", "", "IS NOT NULL", "").Replace(statements["fleet"]), "NULL") {
			t.Error("a bare NULL in a union is a number to SQL Server")
		}
	}
}
