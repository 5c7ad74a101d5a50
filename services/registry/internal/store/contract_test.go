package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// open opens a store on an empty database.
func open(t testing.TB, engine sqldbtest.Engine) *store.Store {
	t.Helper()
	return openAt(t, engine.Empty(t))
}

// openBeside opens a store on a database that was empty before some statements, and the database by hand.
func openBeside(t testing.TB, engine sqldbtest.Engine, before ...string) (*store.Store, *sqldbtest.Database) {
	t.Helper()
	db := engine.Empty(t, before...)
	opened := replicaOf(t, db)
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return opened, db
}

// openAt opens a database as one more replica does, whose schema is brought up before.
func openAt(t testing.TB, db *sqldbtest.Database) *store.Store {
	t.Helper()
	opened, err := store.Open(db.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := opened.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return opened
}

// replicaOf opens a database, and gives a value to the column of the legacy table that requires one.
func replicaOf(t testing.TB, db *sqldbtest.Database) *store.Store {
	t.Helper()
	opened, err := store.Open(db.URL, map[string]string{"Region": "eu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func name(t *testing.T, text string) enrollment.Name {
	t.Helper()
	parsed, err := enrollment.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func beat(t *testing.T, agent, boot string, sequence int64, at time.Time) enrollment.Heartbeat {
	return enrollment.Heartbeat{
		Name: name(t, agent), Path: enrollment.Bus, Order: enrollment.Order{BootID: boot, Sequence: sequence, ObservedAt: at},
		Content: enrollment.Content{ReportedName: agent, Hostname: fmt.Sprintf("host-%s-%d", boot, sequence)},
	}
}

func record(t *testing.T, s *store.Store, beats ...enrollment.Heartbeat) []enrollment.Result {
	t.Helper()
	recorded, rejected, err := s.RecordHeartbeats(t.Context(), beats)
	if err != nil || len(rejected) > 0 {
		t.Fatal(err, rejected)
	}
	var results []enrollment.Result
	for _, one := range recorded {
		results = append(results, one.Result)
	}
	return results
}

func read(t *testing.T, s *store.Store, agent string) store.Agent {
	t.Helper()
	got, _, err := s.Agent(t.Context(), name(t, agent), enrollment.Bus)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

var start = time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestFirstHeartbeatMakesAPendingAgent(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		if got := record(t, s, beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-1", "a", 2, at(2))); got[0] != enrollment.Created || got[1] != enrollment.Updated {
			t.Fatal(got)
		}
		agent := read(t, s, "bm-1")
		if agent.State != enrollment.Pending || agent.Sequence != 2 || agent.Hostname != "host-a-2" || !agent.LastBusAt.Equal(at(2)) || !agent.OnServiceBus || agent.ServerKey != 0 {
			t.Fatalf("%+v", agent)
		}
	})
}

func TestI6_RedeliveryAndReorderingNeverMoveARowBackwards(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		beats := []enrollment.Heartbeat{beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-1", "a", 2, at(2)), beat(t, "BM-1", "b", 1, at(3)), beat(t, "BM-1", "b", 2, at(4))}
		record(t, s, beats...)
		want := read(t, s, "BM-1")
		for _, again := range [][]enrollment.Heartbeat{{beats[0]}, {beats[3], beats[2]}, {beats[1], beats[0]}, beats} {
			for _, result := range record(t, s, again...) {
				if result != enrollment.Stale && result != enrollment.Duplicate {
					t.Fatalf("a heartbeat stored before was %v again", result)
				}
			}
			got := read(t, s, "BM-1")
			got.ReadAt = want.ReadAt
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("the row moved:\n%+v\n%+v", want, got)
			}
		}
	})
}

func TestI6_BindingsSurviveANewerHeartbeatWithoutThem(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		with := beat(t, "BM-1", "a", 1, at(1))
		with.Bindings, with.Content.BindingsCount = []byte(`[{"site":"Default"}]`), 1
		record(t, s, beat(t, "BM-1", "a", 2, at(2)))
		record(t, s, with)
		record(t, s, beat(t, "BM-1", "a", 3, at(3)))
		bindings, _, err := s.Bindings(t.Context(), name(t, "BM-1"))
		if err != nil || len(bindings) != 1 {
			t.Fatal(bindings, err)
		}
		agent := read(t, s, "BM-1")
		if agent.Sequence != 3 || agent.BindingCount != 1 || !agent.BindingsReported {
			t.Fatalf("%+v", agent)
		}
		cleared := beat(t, "BM-1", "a", 4, at(4))
		cleared.Bindings = []byte(`[]`)
		record(t, s, cleared)
		record(t, s, with)
		if bindings, _, err := s.Bindings(t.Context(), name(t, "BM-1")); err != nil || bindings == nil || len(bindings) != 0 {
			t.Fatal(bindings, err)
		}
	})
}

func TestI6_TwoReplicasStoreOneBatchAtOnce(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		db := engine.Empty(t)
		one, two := openAt(t, db), openAt(t, db)
		for round := range int64(20) {
			var batch []enrollment.Heartbeat
			for i := range 50 {
				batch = append(batch, beat(t, fmt.Sprintf("BM-%d", i), "a", round+1, at(int(round))))
			}
			failures := make(chan error, 2)
			for _, s := range []*store.Store{one, two} {
				go func() {
					_, _, err := s.RecordHeartbeats(context.WithoutCancel(t.Context()), batch)
					failures <- err
				}()
			}
			if err := errors.Join(<-failures, <-failures); err != nil {
				t.Fatal(err)
			}
		}
		agents, _, _, err := one.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name"}, 1000, nil)
		if err != nil || len(agents) != 50 {
			t.Fatal(len(agents), err)
		}
		for _, agent := range agents {
			if agent.Sequence != 20 {
				t.Fatalf("%s is at %d", agent.Name, agent.Sequence)
			}
		}
	})
}

func TestI13_NamesInAnyCaseAreOneAgent(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "Straße-ÄÖ", "a", 1, at(1)))
		record(t, s, beat(t, "STRASSE-äö", "a", 2, at(2)))
		record(t, s, beat(t, "strasse-A\u0308O\u0308", "a", 3, at(3)))
		agents, _, _, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name"}, 10, nil)
		if err != nil || len(agents) != 1 || agents[0].Name != "Straße-ÄÖ" || agents[0].ReportedName != "strasse-A\u0308O\u0308" {
			t.Fatal(agents, err)
		}
	})
}

func accept(t *testing.T, s *store.Store, agent string, create bool) store.Agent {
	t.Helper()
	ask := store.Acceptance{Name: name(t, agent), Etag: read(t, s, agent).Etag(), Actor: "tester"}
	if create {
		ask.Create = &store.Server{URL: "https://" + agent, Active: true}
	}
	accepted, created, err := s.Accept(t.Context(), ask)
	if err != nil || created != create {
		t.Fatal(err, created)
	}
	return accepted
}

func TestI14_OfTwoDecisionsAtOnceOneWins(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		db := engine.Empty(t)
		one, two := openAt(t, db), openAt(t, db)
		for i := range 10 {
			agent := fmt.Sprintf("BM-%d", i)
			record(t, one, beat(t, agent, "a", 1, at(1)))
			if _, err := one.CreateServer(t.Context(), store.Server{Name: agent, URL: "https://x", Type: store.ServerType}); err != nil {
				t.Fatal(err)
			}
			etag := read(t, one, agent).Etag()
			failures := make(chan error, 2)
			for operator, s := range map[string]*store.Store{"ann": one, "bob": two} {
				go func() {
					_, _, err := s.Accept(context.WithoutCancel(t.Context()), store.Acceptance{Name: name(t, agent), Etag: etag, Actor: operator})
					failures <- err
				}()
			}
			stale, won := 0, 0
			for range 2 {
				var lost *store.StaleEtagError
				switch err := <-failures; {
				case err == nil:
					won++
				case errors.As(err, &lost):
					stale++
				default:
					t.Fatal(err)
				}
			}
			if won != 1 || stale != 1 {
				t.Fatalf("%d won, %d were told", won, stale)
			}
		}
	})
}

func TestI14_HeartbeatsLeaveTheEtagAlone(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		before := read(t, s, "BM-1").Etag()
		record(t, s, beat(t, "BM-1", "b", 1, at(2)))
		if after := read(t, s, "BM-1").Etag(); after != before {
			t.Fatalf("%s became %s", before, after)
		}
	})
}

func TestI8_HeartbeatsNeverWriteAServer(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		if servers, _, _, err := s.Servers(t.Context(), store.ServerFilter{HasAgent: -1, Sort: "name"}, 10, nil); err != nil || len(servers) != 0 {
			t.Fatal("a heartbeat made a server", servers, err)
		}
		accepted := accept(t, s, "BM-1", true)
		before, err := s.Server(t.Context(), store.ServerRef{Name: "BM-1"})
		if err != nil {
			t.Fatal(err)
		}
		changed := beat(t, "bm-1", "b", 1, at(2))
		changed.Content.HTTPBaseURL, changed.Content.Hostname = "https://elsewhere", "other"
		record(t, s, changed)
		after, err := s.Server(t.Context(), store.ServerRef{Name: "BM-1"})
		if err != nil || after != before || accepted.Server.URL != "https://BM-1" {
			t.Fatal(before, after, err)
		}
	})
}

func TestI12_NoServerForAnAgentNobodyAccepted(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1)))
		if _, err := s.Reject(t.Context(), name(t, "BM-2"), read(t, s, "BM-2").Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		stale := store.Acceptance{Name: name(t, "BM-1"), Etag: "1-99", Create: &store.Server{URL: "https://x"}, Actor: "tester"}
		if _, _, err := s.Accept(t.Context(), stale); err == nil {
			t.Fatal("accepted with a stale etag")
		}
		if servers, _, _, err := s.Servers(t.Context(), store.ServerFilter{HasAgent: -1, Sort: "name"}, 10, nil); err != nil || len(servers) != 0 {
			t.Fatal(servers, err)
		}
	})
}

func TestI18_AnAgentIsLinkedOnlyToTheServerOfItsName(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		if _, err := s.CreateServer(t.Context(), store.Server{Name: "BM-2", URL: "https://x", Type: store.ServerType}); err != nil {
			t.Fatal(err)
		}
		var mismatch *store.NameMismatchError
		_, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "BM-1"), Etag: read(t, s, "BM-1").Etag(), ServerName: "BM-2", Actor: "tester"})
		if !errors.As(err, &mismatch) {
			t.Fatal(err)
		}
		accept(t, s, "BM-1", true)
		server, err := s.Server(t.Context(), store.ServerRef{Name: "bm-1"})
		if err != nil {
			t.Fatal(err)
		}
		other, same := "BM-9", "bm-1"
		if _, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "BM-1"}, server.Etag(), store.ServerChange{Name: &other}); !errors.As(err, &mismatch) {
			t.Fatal("a linked server was renamed", err)
		}
		if renamed, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "BM-1"}, server.Etag(), store.ServerChange{Name: &same}); err != nil || renamed.Name != same {
			t.Fatal(renamed, err)
		}
	})
}

// Another codebase renames a linked server: an operator gives it the name of its agent back.
func TestI18_ARenamedServerGetsTheNameOfItsAgentBack(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		raw.Run(t, `INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES ('SP-1', 'https://x', 'BenefitManager', 1, 1)`)
		record(t, s, beat(t, "SP-1", "a", 1, at(1)))
		accept(t, s, "SP-1", false)
		key := read(t, s, "SP-1").ServerKey
		raw.Run(t, `UPDATE TblServer SET Name = 'SP-1-old'`)
		astray(t, s, 1, 0)
		server, err := s.Server(t.Context(), store.ServerRef{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		other, own := "SP-2", "sp-1"
		var mismatch *store.NameMismatchError
		if _, err := s.UpdateServer(t.Context(), store.ServerRef{Key: key}, server.Etag(), store.ServerChange{Name: &other}); !errors.As(err, &mismatch) {
			t.Errorf("a third name: %v", err)
		}
		if renamed, err := s.UpdateServer(t.Context(), store.ServerRef{Key: key}, server.Etag(), store.ServerChange{Name: &own}); err != nil || renamed.Name != own || renamed.Agent != "SP-1" {
			t.Errorf("its agent's name: %+v %v", renamed, err)
		}
		astray(t, s, 0, 0)
	})
}

func TestRegistrationStates(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		accepted := accept(t, s, "BM-1", true)
		if accepted.DecidedBy != "tester" || accepted.DecidedAt.IsZero() || accepted.Server == nil {
			t.Fatalf("%+v", accepted)
		}
		var state *store.StateError
		if _, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "BM-1"), Etag: accepted.Etag(), Actor: "x"}); !errors.As(err, &state) || state.Refusal != enrollment.AlreadyDecided {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), name(t, "BM-1"), accepted.Etag()); !errors.As(err, &state) || state.Refusal != enrollment.InUse {
			t.Fatal(err)
		}
		rejected, err := s.Reject(t.Context(), name(t, "BM-1"), accepted.Etag(), "x")
		if err != nil || rejected.ServerKey != accepted.ServerKey {
			t.Fatal("the link must be kept", rejected, err)
		}
		record(t, s, beat(t, "BM-1", "a", 2, at(2)))
		if again := read(t, s, "BM-1"); again.State != enrollment.Rejected || again.Sequence != 2 {
			t.Fatalf("%+v", again)
		}
		if err := s.Remove(t.Context(), name(t, "BM-1"), rejected.Etag()); err != nil {
			t.Fatal(err)
		}
		record(t, s, beat(t, "BM-1", "a", 3, at(3)))
		fresh := read(t, s, "BM-1")
		if fresh.State != enrollment.Pending || fresh.Etag() == rejected.Etag() || fresh.Key == rejected.Key {
			t.Fatalf("a removed agent's decision came back: %+v", fresh)
		}
	})
}

func TestAddByHand(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		added, created, err := s.Add(t.Context(), name(t, "QA-1"), "http://127.0.0.1:9", &store.Server{URL: "https://qa", Active: true}, "tester")
		if err != nil || !created || added.State != enrollment.Accepted || added.OnServiceBus || added.Server == nil {
			t.Fatal(added, created, err)
		}
		var taken *store.NameTakenError
		if _, _, err := s.Add(t.Context(), name(t, "qa-1"), "http://127.0.0.1:9", nil, "tester"); !errors.As(err, &taken) {
			t.Fatal(err)
		}
		verified, recorded, err := s.RecordVerification(t.Context(), name(t, "QA-1"), store.Verification{BaseURL: "http://127.0.0.1:9", Outcome: 1, Detail: "ok"})
		if err != nil || !recorded || verified.Verification != 1 || verified.VerifiedAt.IsZero() || verified.Etag() != added.Etag() {
			t.Fatal(verified, recorded, err)
		}
		if _, recorded, err := s.RecordVerification(t.Context(), name(t, "QA-1"), store.Verification{BaseURL: "http://127.0.0.1:10", Outcome: 1, Detail: "ok"}); err != nil || recorded {
			t.Fatal("stored for another base URL", err)
		}
		claimed, err := s.ClaimVerifications(t.Context(), 0, time.Minute, 10)
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if again, err := s.ClaimVerifications(t.Context(), 0, time.Minute, 10); err != nil || len(again) != 0 {
			t.Fatal("handed out twice", again, err)
		}
		moved := "http://127.0.0.1:10"
		updated, err := s.UpdateReach(t.Context(), name(t, "QA-1"), verified.Etag(), store.Reach{HTTPBaseURL: &moved})
		if err != nil || updated.Verification != 0 || !updated.VerifiedAt.IsZero() || updated.Etag() == verified.Etag() {
			t.Fatal("another base URL must clear the verification", updated, err)
		}
	})
}

func TestPages(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		var batch []enrollment.Heartbeat
		for i := range 25 {
			one := beat(t, fmt.Sprintf("BM-%02d", i), "a", 1, at(i%7))
			one.Content.Hostname, one.Content.AgentVersion = fmt.Sprintf("Host-%d", i%3), fmt.Sprintf("1.%d", i%4)
			batch = append(batch, one)
		}
		record(t, s, batch...)
		keys := map[string]func(store.Agent) string{
			"name": func(a store.Agent) string { return a.NameKey }, "state": func(a store.Agent) string { return fmt.Sprint(a.State, a.NameKey) },
			"last_heartbeat": func(a store.Agent) string { return a.LastBusAt.Format(time.RFC3339Nano) }, "created": func(a store.Agent) string { return a.CreatedAt.Format(time.RFC3339Nano) },
			"hostname": func(a store.Agent) string { return strings.ToLower(a.Hostname) }, "version": func(a store.Agent) string { return a.AgentVersion },
			"control_server": func(store.Agent) string { return "" },
		}
		for sort, key := range keys {
			for _, descending := range []bool{false, true} {
				filter := store.Filter{Transport: -1, Linked: -1, Sort: sort, Descending: descending}
				var seen []store.Agent
				for after := (*store.Cursor)(nil); ; {
					agents, next, total, err := s.Agents(t.Context(), filter, 10, after)
					if err != nil || total != 25 {
						t.Fatal(total, err)
					}
					seen = append(seen, agents...)
					if after = next; after == nil {
						break
					}
				}
				names := map[string]bool{}
				for i, agent := range seen {
					names[agent.Name] = true
					if i > 0 && (descending && key(agent) > key(seen[i-1]) || !descending && key(agent) < key(seen[i-1])) {
						t.Errorf("%s descending %v: %s stands after %s", sort, descending, agent.Name, seen[i-1].Name)
					}
				}
				if len(seen) != 25 || len(names) != 25 {
					t.Fatalf("%s descending %v: %d agents seen, %d of them different", sort, descending, len(seen), len(names))
				}
			}
		}
	})
}

// Agents are found by how long nothing was heard of them, by version and by their primary, and all that are found are counted.
func TestAgentsAreFoundByWhatOperatorsAskFor(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		old, recent := beat(t, "BM-OLD", "a", 1, time.Now().Add(-10*24*time.Hour)), beat(t, "BM-NEW", "a", 1, time.Now())
		old.Content.AgentVersion, recent.Content.AgentVersion = "1.0", "2.0"
		record(t, s, old, recent, beat(t, "BM-TOO", "a", 1, time.Now().Add(-8*24*time.Hour)))
		for _, row := range []struct {
			what   string
			filter store.Filter
			want   []string
		}{
			{"unseen for a week", store.Filter{UnseenFor: 7 * 24 * time.Hour}, []string{"BM-OLD", "BM-TOO"}},
			{"unseen for a month", store.Filter{UnseenFor: 30 * 24 * time.Hour}, nil},
			{"of a version", store.Filter{Version: "2.0"}, []string{"BM-NEW"}},
			{"of no such version", store.Filter{Version: "2"}, nil},
			{"of a version, and unseen", store.Filter{Version: "1.0", UnseenFor: time.Hour}, []string{"BM-OLD"}},
			{"of a control server that is none", store.Filter{Primary: "cs-1"}, nil},
		} {
			row.filter.Transport, row.filter.Linked, row.filter.Sort = -1, -1, "name"
			found, next, total, err := s.Agents(t.Context(), row.filter, 1000, nil)
			var names []string
			for _, agent := range found {
				names = append(names, agent.Name)
			}
			if err != nil || next != nil || total != len(row.want) || !slices.Equal(names, row.want) {
				t.Errorf("%s: %v of %d, %v", row.what, names, total, err)
			}
		}
	})
}

func TestEvidence(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		second, minute := time.Second, time.Minute
		report := func(e store.Evidence) store.Health {
			t.Helper()
			e.Path = enrollment.Bus
			health, _, err := s.ReportEvidence(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			return health
		}
		if h := report(store.Evidence{Consumer: "one"}); h.Healthy {
			t.Fatal("healthy without a canary")
		}
		if h := report(store.Evidence{Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &minute}); h.Healthy {
			t.Fatal("healthy with an old backlog")
		}
		h := report(store.Evidence{Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &second})
		if !h.Healthy || h.Since.IsZero() {
			t.Fatalf("%+v", h)
		}
		if again := report(store.Evidence{Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &second}); !again.Since.Equal(h.Since) {
			t.Fatal("healthy since must stay")
		}
		if other := report(store.Evidence{Consumer: "two"}); !other.Healthy {
			t.Fatal("one good consumer is enough")
		}
	})
}

// A change that changes nothing leaves every etag as it is, and no page that somebody looks at goes stale for it.
func TestWhatChangesNothingBumpsNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, time.Now()))
		before, _, err := s.Agent(t.Context(), name(t, "BM-1"), enrollment.Bus)
		if err != nil {
			t.Fatal(err)
		}
		same := before.HTTPBaseURL
		for what, reach := range map[string]store.Reach{"nothing": {}, "what is there": {HTTPBaseURL: &same, OnServiceBus: &before.OnServiceBus}} {
			if after, err := s.UpdateReach(t.Context(), name(t, "BM-1"), before.Etag(), reach); err != nil || after.Etag() != before.Etag() {
				t.Errorf("%s: the agent's etag becomes %s, %v", what, after.Etag(), err)
			}
		}
		other := "http://127.0.0.1:10"
		if after, err := s.UpdateReach(t.Context(), name(t, "BM-1"), before.Etag(), store.Reach{HTTPBaseURL: &other}); err != nil || after.Etag() == before.Etag() {
			t.Errorf("a change leaves the etag as it is: %v", err)
		}
		server, err := s.CreateServer(t.Context(), store.Server{Name: "BM-1", URL: "https://bm-1.example.test", Type: store.ServerType})
		if err != nil {
			t.Fatal(err)
		}
		if after, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "BM-1"}, server.Etag(), store.ServerChange{}); err != nil || after.Etag() != server.Etag() {
			t.Errorf("the server's etag becomes %s, %v", after.Etag(), err)
		}
		var stale *store.StaleEtagError
		if _, err := s.UpdateReach(t.Context(), name(t, "BM-1"), before.Etag(), store.Reach{}); !errors.As(err, &stale) {
			t.Errorf("with a stale etag: %v", err)
		}
	})
}
