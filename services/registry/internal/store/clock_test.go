package store_test

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// heardAgo is a direct heartbeat that its control server has held for so long.
func heardAgo(t *testing.T, agent, boot string, sequence int64, age time.Duration) enrollment.Heartbeat {
	h := beat(t, agent, boot, sequence, time.Time{})
	h.Path, h.Age = enrollment.Direct, enrollment.Age{Of: age, Known: true}
	h.Identity = enrollment.Identity{TokenHash: make([]byte, 32), Enrols: true}
	return h
}

func look(t *testing.T, s *store.Store) time.Duration {
	t.Helper()
	step, err := s.LookAtClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// prove reports evidence of a path that is listened to.
func prove(t *testing.T, s *store.Store, path enrollment.Path) store.Health {
	t.Helper()
	second, none := time.Second, time.Duration(0)
	health, _, err := s.ReportEvidence(t.Context(), store.Evidence{Path: path, Consumer: "one", CanaryRoundTrip: &second, OldestMessageAge: &none})
	if err != nil {
		t.Fatal(err)
	}
	return health
}

// directAge is how long ago an agent was heard on the direct path, as its row tells.
func directAge(t *testing.T, s *store.Store, agent string) time.Duration {
	t.Helper()
	a := read(t, s, agent)
	return a.ReadAt.Sub(a.LastDirectAt)
}

// expectAge allows for a slow run, and for the whole second to which ages are moved.
func expectAge(t *testing.T, s *store.Store, when, agent string, want time.Duration) {
	t.Helper()
	if got := directAge(t, s, agent); got < want-time.Millisecond || got > want+time.Minute {
		t.Errorf("%s: %s was heard %s ago, want %s", when, agent, got, want)
	}
}

// inFuture counts the stored instants that decide something and lie in the future of the database's clock.
func (w *world) inFuture() string {
	now := w.raw.Now()
	return w.rows(`SELECT 'agent', Name FROM TblAgent WHERE LastBusHeartbeatAt > ` + now + ` OR LastDirectHeartbeatAt > ` + now + ` OR HttpVerifiedAt > ` + now + ` OR HttpClaimedUntil > ` + now + `
		UNION ALL SELECT 'control server', Name FROM TblControlServer WHERE RenewedAt > ` + now + ` OR UnlistedAt > ` + now + `
		UNION ALL SELECT 'evidence', ConsumerId FROM TblIngestEvidence WHERE AliveAt > ` + now + ` OR HealthySince > ` + now + `
		UNION ALL SELECT 'clock', '' FROM TblRegistryClock WHERE SeenAt > ` + now + ` OR SteppedAt > ` + now)
}

func TestI11_AStepOfTheDatabasesClockKeepsAgesAndTakesProofsBack(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		s, other := w.store, w.other
		record(t, s, heardAgo(t, "ALIVE", "a", 1, 0), heardAgo(t, "DEAD", "a", 1, 10*time.Minute))
		prove(t, s, enrollment.Direct)
		if step := look(t, s); step != 0 {
			t.Fatal("a first look sees a step of", step)
		}
		s.StepClock(time.Hour)
		other.StepClock(time.Hour)
		if step := look(t, s); step < time.Hour-time.Second || step > time.Hour+time.Minute {
			t.Fatal("stepped an hour ahead, seen:", step)
		}
		if step := look(t, other); step != 0 {
			t.Error("the other replica sees it as well:", step)
		}
		expectAge(t, s, "ahead", "ALIVE", 0)
		expectAge(t, s, "ahead", "DEAD", 10*time.Minute)
		if fleet := fleetOf(t, other); fleet.Direct.Healthy {
			t.Error("the path counts as proven over the step", fleet.Direct)
		}
		prove(t, s, enrollment.Direct)
		record(t, s, heardAgo(t, "ALIVE", "a", 2, 0), heardAgo(t, "LATE", "a", 1, 0)) // LATE is never heard again
		look(t, s)

		s.StepClock(0)
		other.StepClock(0)
		// No replica has looked yet: what is judged by must not be what was stored by the other clock.
		fleet := fleetOf(t, other)
		if fleet.Direct.Healthy || fleet.Direct.HeardAt.After(fleet.ReadAt) || fleet.Direct.ReportedAt.After(fleet.ReadAt) {
			t.Errorf("stepped back: %+v at %s", fleet.Direct, fleet.ReadAt)
		}
		if found := w.inFuture(); found != "" {
			t.Error("in the future of the clock:", found)
		}
		expectAge(t, s, "back", "ALIVE", 0)
		expectAge(t, s, "back", "LATE", 0)
		expectAge(t, s, "back", "DEAD", 10*time.Minute)
		if step := look(t, s) + look(t, other); step != 0 {
			t.Error("a step that was dealt with is seen again:", step)
		}
		if state, _, err := s.Clock(t.Context()); err != nil || state.Step > -59*time.Minute {
			t.Errorf("%+v %v", state, err)
		}
		if health := prove(t, s, enrollment.Direct); !health.Healthy || time.Since(health.Since) > time.Minute {
			t.Errorf("proofs begin again: %+v", health)
		}
	})
}

// An agent that fell silent an hour before the clock went back by an hour was not heard just now.
func TestI11_ASilenceIsNotShortenedByAStepBack(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.store.StepClock(time.Hour)
		record(t, w.store, heardAgo(t, "DEAD", "a", 1, 61*time.Minute), heardAgo(t, "ALIVE", "a", 1, time.Second))
		look(t, w.store)
		w.store.StepClock(0)
		record(t, w.store, heardAgo(t, "ALIVE", "a", 2, 0))
		if step := look(t, w.store); step > -59*time.Minute {
			t.Fatal("seen:", step)
		}
		expectAge(t, w.store, "back", "DEAD", 61*time.Minute)
		expectAge(t, w.store, "back", "ALIVE", 0)
	})
}

func TestAStepSeenByTwoReplicasAtOnceIsMendedOnce(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.store.StepClock(time.Hour)
		record(t, w.store, heardAgo(t, "DEAD", "a", 1, 5*time.Minute))
		look(t, w.store)
		w.store.StepClock(0)
		steps := make(chan time.Duration, 2)
		for _, replica := range []*store.Store{w.store, w.other} {
			go func() {
				step, err := replica.LookAtClock(t.Context())
				if err != nil {
					t.Error(err)
				}
				steps <- step
			}()
		}
		if a, b := <-steps, <-steps; (a == 0) == (b == 0) {
			t.Errorf("both or neither: %s, %s", a, b)
		}
		expectAge(t, w.store, "back", "DEAD", 5*time.Minute)
	})
}

// The release before kept no last instant; what it stored tells as well that the clock is behind.
func TestAStepBackIsSeenAtTheFirstLookToo(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.store.StepClock(time.Hour)
		record(t, w.store, heardAgo(t, "DEAD", "a", 1, time.Second))
		w.store.StepClock(0)
		if step := look(t, w.store); step > -59*time.Minute {
			t.Fatal("seen:", step)
		}
		if found := w.inFuture(); found != "" {
			t.Error("in the future of the clock:", found)
		}
	})
}

func TestI6_AHeartbeatReplacesWhatAStepLeftInTheFuture(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.store.StepClock(time.Hour)
		bindings := heardAgo(t, "BM-1", "a", 1, 0)
		bindings.Bindings = []byte(`[{"site":"old"}]`)
		record(t, w.store, bindings)
		w.store.StepClock(0)
		again := heardAgo(t, "BM-1", "b", 1, 0) // the agent restarted
		again.Bindings = []byte(`[{"site":"new"}]`)
		if got := record(t, w.store, again); got[0] != enrollment.Updated {
			t.Fatal(got)
		}
		expectAge(t, w.store, "back", "BM-1", 0)
		agent := read(t, w.store, "BM-1")
		if agent.BootID != "b" || agent.LastDirectAt.After(agent.ReadAt) || agent.Hostname != "host-b-1" {
			t.Errorf("%+v", agent)
		}
		if found, _, err := w.store.Bindings(t.Context(), name(t, "BM-1")); err != nil || len(found) != 1 || found[0].Site != "new" {
			t.Error(found, err)
		}
	})
}

func TestEvidenceFromTheFutureProvesNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.store.StepClock(time.Hour)
		prove(t, w.store, enrollment.Bus)
		w.store.StepClock(0)
		if agent, health, err := w.store.Agent(t.Context(), name(t, "NONE"), enrollment.Bus); err == nil {
			t.Fatal(agent, health)
		}
		record(t, w.store, heardAgo(t, "BM-1", "a", 1, 0))
		if _, health, err := w.store.Agent(t.Context(), name(t, "BM-1"), enrollment.Bus); err != nil || health.Healthy {
			t.Errorf("an hour ahead: %+v %v", health, err)
		}
		if health := prove(t, w.store, enrollment.Bus); !health.Healthy || time.Since(health.Since).Abs() > time.Minute {
			t.Errorf("the proof starts again with the next report: %+v", health)
		}
	})
}

func TestAClaimOfAStepAgoLapses(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		s := w.store
		if _, _, err := s.Add(t.Context(), name(t, "QA-1"), "http://127.0.0.1:9", &store.Server{URL: "https://qa"}, "tester"); err != nil {
			t.Fatal(err)
		}
		verify := func(age time.Duration) {
			t.Helper()
			if _, recorded, err := s.RecordVerification(t.Context(), name(t, "QA-1"), store.Verification{BaseURL: "http://127.0.0.1:9", Outcome: 1, Age: age}); err != nil || !recorded {
				t.Fatal(recorded, err)
			}
		}
		claim := func() int {
			t.Helper()
			claimed, err := s.ClaimVerifications(t.Context(), time.Minute, time.Minute, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(claimed)
		}
		s.StepClock(time.Hour)
		verify(2 * time.Minute)
		if claim() != 1 || claim() != 0 {
			t.Fatal("a claim is one caller's")
		}
		s.StepClock(0)
		if claim() != 1 {
			t.Error("claimed for an hour, by a clock that was stepped since")
		}
		verify(0)
		if agent := read(t, s, "QA-1"); agent.VerifiedAt.After(agent.ReadAt) {
			t.Errorf("verified at %s, read at %s", agent.VerifiedAt, agent.ReadAt)
		}
	})
}

func TestControlServersKeepTheirSilenceOverAStep(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		states := func(when string, want map[string]cloud.State) {
			t.Helper()
			overview, err := w.one.Overview(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range overview.Servers {
				if s.State != want[s.Name] {
					t.Errorf("%s: %s is %s, want %s", when, s.Name, s.State, want[s.Name])
				}
			}
		}
		w.join("a", "b", "gone")
		w.silence("gone", 10*time.Minute)
		look(t, w.store)
		w.store.StepClock(time.Hour)
		look(t, w.store)
		w.join("a") // b renews later
		states("ahead", map[string]cloud.State{"a": cloud.Normal, "b": cloud.Normal, "gone": cloud.Evicted})
		w.join("b", "a")
		look(t, w.store)
		w.store.StepClock(0)
		w.join("a") // b has stopped
		look(t, w.store)
		w.exec(`UPDATE TblControlServer SET RenewedAt = ` + w.raw.Since(`RenewedAt`, 20) + ` WHERE Name = 'b'`)
		states("back", map[string]cloud.State{"a": cloud.Normal, "b": cloud.Suspect, "gone": cloud.Evicted})
		if found := w.inFuture(); found != "" {
			t.Error("in the future of the clock:", found)
		}
	})
}
