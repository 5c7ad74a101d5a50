package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// direct is a heartbeat that a machine sends to a control server under a name.
func direct(t *testing.T, agent, machine string, sequence int64, at time.Time) enrollment.Heartbeat {
	b := beat(t, agent, machine, sequence, at)
	token := sha256.Sum256([]byte(machine))
	b.Path, b.Identity = enrollment.Direct, enrollment.Identity{TokenHash: token[:]}
	return b
}

// enrolling is a heartbeat with the enrolment key.
func enrolling(b enrollment.Heartbeat) enrollment.Heartbeat {
	b.Identity.Enrols = true
	return b
}

const (
	created       = enrollment.Created
	updated       = enrollment.Updated
	stale         = enrollment.Stale
	duplicate     = enrollment.Duplicate
	wrongToken    = enrollment.WrongToken
	notRegistered = enrollment.NotRegistered
	notClaimable  = enrollment.NotClaimable
)

// unlike tells how results differ from those wanted; empty: not at all.
func unlike(got []enrollment.Result, want ...enrollment.Result) string {
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("results %v, want %v", got, want)
}

func TestADirectAgentRegistersItself(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		first := enrolling(direct(t, "BM-1", "one", 2, at(2)))
		if problem := unlike(record(t, s, direct(t, "BM-1", "one", 1, at(1)), first, direct(t, "bm-1", "one", 3, at(3))), notRegistered, created, updated); problem != "" {
			t.Fatal(problem)
		}
		agent := read(t, s, "BM-1")
		if agent.State != enrollment.Pending || agent.OnServiceBus || !agent.HasToken || agent.Claimable || !agent.LastBusAt.IsZero() ||
			!agent.LastDirectAt.Equal(at(3)) || agent.Hostname != "host-one-3" || agent.Sequence != 3 {
			t.Fatalf("%+v", agent)
		}
		for range 2 { // its answer was lost
			if problem := unlike(record(t, s, first), stale); problem != "" {
				t.Fatal(problem)
			}
		}
		if problem := unlike(record(t, s, enrolling(direct(t, "BM-1", "one", 3, at(3)))), duplicate); problem != "" {
			t.Fatal(problem)
		}
		if again := read(t, s, "BM-1"); !again.ConflictAt.IsZero() || again.Sequence != 3 || !again.LastDirectAt.Equal(at(3)) {
			t.Fatalf("%+v", again)
		}
		if problem := unlike(record(t, s, direct(t, "BM-2", "one", 1, at(1))), notRegistered); problem != "" {
			t.Fatal(problem)
		}
		var missing *store.AgentNotFoundError
		if _, _, err := s.Agent(t.Context(), name(t, "BM-2"), enrollment.Bus); !errors.As(err, &missing) {
			t.Fatal("a heartbeat without the enrolment key made an agent", err)
		}
	})
}

// What a control server cannot have been told: the same calls, whole batches of them, once more.
func TestI6_TheSameRegistrationsAgainChangeNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		batch := []enrollment.Heartbeat{
			enrolling(direct(t, "BM-1", "one", 1, at(1))), enrolling(direct(t, "bm-1", "two", 1, at(2))), direct(t, "BM-1", "three", 1, at(3)),
			beat(t, "BM-2", "a", 1, at(1)), enrolling(direct(t, "BM-2", "one", 1, at(2))), direct(t, "BM-2", "one", 2, at(2)),
			direct(t, "BM-3", "one", 1, at(1)),
		}
		if problem := unlike(record(t, s, batch...), created, wrongToken, wrongToken, created, notClaimable, notRegistered, notRegistered); problem != "" {
			t.Fatal(problem)
		}
		before := []store.Agent{read(t, s, "BM-1"), read(t, s, "BM-2")}
		if before[0].ConflictAt.IsZero() || !before[1].ConflictAt.IsZero() || before[0].Hostname != "host-one-1" || !before[0].LastDirectAt.Equal(at(1)) {
			t.Fatalf("%+v", before)
		}
		if problem := unlike(record(t, s, batch...), duplicate, wrongToken, wrongToken, duplicate, notClaimable, notRegistered, notRegistered); problem != "" {
			t.Fatal(problem)
		}
		for i, agent := range []store.Agent{read(t, s, "BM-1"), read(t, s, "BM-2")} {
			agent.ReadAt = before[i].ReadAt
			if fmt.Sprint(agent) != fmt.Sprint(before[i]) {
				t.Errorf("the row moved:\n%+v\n%+v", before[i], agent)
			}
		}
	})
}

func TestI13_OfTwoReplicasThatEnrolMachinesUnderOneNameOneWins(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		db := engine.Empty(t)
		one, two := openAt(t, db), openAt(t, db)
		for round := range 20 {
			spelling := map[string]string{"one": fmt.Sprintf("BM-%d", round), "two": fmt.Sprintf("bm-%d", round)}
			type answer struct {
				machine string
				result  enrollment.Result
				err     error
			}
			answers := make(chan answer, 2)
			for machine, s := range map[string]*store.Store{"one": one, "two": two} {
				b := enrolling(direct(t, spelling[machine], machine, 1, at(1)))
				go func() {
					recorded, _, err := s.RecordHeartbeats(context.WithoutCancel(t.Context()), []enrollment.Heartbeat{b})
					answers <- answer{machine, recorded[0].Result, err}
				}()
			}
			results := map[string]enrollment.Result{}
			for range 2 {
				got := <-answers
				if got.err != nil {
					t.Fatal(got.err)
				}
				results[got.machine] = got.result
			}
			winner := "one"
			if results["two"] == created {
				winner = "two"
			}
			loser := map[string]string{"one": "two", "two": "one"}[winner]
			if results[winner] != created || results[loser] != wrongToken {
				t.Fatal(results)
			}
			after := record(t, one, direct(t, spelling[loser], winner, 2, at(2)), direct(t, spelling[winner], loser, 2, at(2)))
			if problem := unlike(after, updated, wrongToken); problem != "" {
				t.Fatal(problem)
			}
			if agent := read(t, two, spelling["one"]); agent.Hostname != "host-"+winner+"-2" || agent.ConflictAt.IsZero() {
				t.Fatalf("%+v", agent)
			}
		}
	})
}

// Nothing comes between read and insert in a test, so that a trigger plays the replica that was faster.
func TestI13_WhoeverInsertedTheNameMeanwhileIsAskedFor(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for what, row := range map[string]struct {
			inserted string // registration state, observed at, token hash
			results  []enrollment.Result
		}{
			"the same machine elsewhere": {`1, '2026-01-02T03:04:05.000Z', token`, []enrollment.Result{updated, duplicate}},
			"another machine":            {`1, '2026-01-02T03:04:05.000Z', other`, []enrollment.Result{wrongToken, wrongToken}},
			"a heartbeat over the bus":   {`1, '2026-01-02T03:04:05.000Z', NULL`, []enrollment.Result{notClaimable, notRegistered}},
			"an operator, by hand":       {`2, NULL, NULL`, []enrollment.Result{notClaimable, notRegistered}},
		} {
			t.Run(what, func(t *testing.T) {
				s, raw := openBeside(t, engine)
				first := enrolling(direct(t, "BM-1", "one", 1, at(1)))
				values := strings.NewReplacer("token", fmt.Sprintf(raw.Of("x'%x'", "0x%x"), first.Identity.TokenHash), "other", raw.Of("x'00'", "0x00")).Replace(row.inserted)
				insert := `INSERT INTO TblAgent (Name, NameKey, ReportedName, OnServiceBus, CreatedAt, RegistrationState, ObservedAt, TokenHash)
					VALUES ('bm-1', 'bm-1', 'bm-1', 0, '2026-01-02T03:04:05.000Z', ` + values + `)`
				raw.Run(t, raw.Of(`CREATE TRIGGER TestFaster BEFORE INSERT ON TblAgent BEGIN `+insert+`; END`, `CREATE TRIGGER TestFaster ON TblAgent INSTEAD OF INSERT AS `+insert))
				second := first
				second.Identity.Enrols = false
				if problem := unlike(record(t, s, first, second), row.results...); problem != "" {
					t.Fatal(problem)
				}
			})
		}
	})
}

func TestI14_AResetTokenIsClaimedOnce(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, enrolling(direct(t, "BM-1", "one", 1, at(1))), enrolling(direct(t, "BM-1", "two", 1, at(2))))
		disputed := read(t, s, "BM-1")
		var required *store.EtagRequiredError
		var old *store.StaleEtagError
		if _, err := s.ResetToken(t.Context(), name(t, "BM-1"), ""); !errors.As(err, &required) {
			t.Fatal(err)
		}
		if _, err := s.ResetToken(t.Context(), name(t, "BM-1"), "1-99"); !errors.As(err, &old) {
			t.Fatal(err)
		}
		if agent := read(t, s, "BM-1"); !agent.HasToken || agent.Claimable || agent.ConflictAt.IsZero() {
			t.Fatalf("a refused reset changed %+v", agent)
		}
		reset, err := s.ResetToken(t.Context(), name(t, "bm-1"), disputed.Etag())
		if err != nil || reset.HasToken || !reset.Claimable || !reset.ConflictAt.IsZero() || reset.DecisionVersion != disputed.DecisionVersion+1 {
			t.Fatal(reset, err)
		}
		if _, err := s.ResetToken(t.Context(), name(t, "BM-1"), disputed.Etag()); !errors.As(err, &old) {
			t.Fatal(err)
		}
		readBefore := fmt.Sprintf(`[[%d,2,null,"2026-01-02T03:04:05.000Z","one",9,"2026-01-02T03:04:05.000Z",null,null,0,null]]`, reset.Key)
		if rows, err := s.Run(t.Context(), "update_liveness", map[string]any{"batch": readBefore}); err != nil || rows != 0 {
			t.Fatal("a heartbeat that was judged before the reset is stored after it", rows, err)
		}
		got := record(t, s, direct(t, "BM-1", "one", 2, at(3)), enrolling(direct(t, "BM-1", "two", 2, at(4))), direct(t, "BM-1", "one", 3, at(5)), direct(t, "BM-1", "two", 3, at(6)))
		if problem := unlike(got, notRegistered, updated, wrongToken, updated); problem != "" {
			t.Fatal(problem)
		}
		agent := read(t, s, "BM-1")
		if !agent.HasToken || agent.Claimable || !agent.ConflictAt.IsZero() || agent.Hostname != "host-two-3" || agent.Etag() != reset.Etag() {
			t.Fatalf("%+v", agent)
		}
	})
}

func TestAfterAResetTheSameHeartbeatClaimsTheNameAgain(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		first := enrolling(direct(t, "BM-1", "one", 1, at(1)))
		record(t, s, first)
		if _, err := s.ResetToken(t.Context(), name(t, "BM-1"), read(t, s, "BM-1").Etag()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []enrollment.Result{updated, duplicate} {
			if problem := unlike(record(t, s, first), want); problem != "" {
				t.Fatal(problem)
			}
			if agent := read(t, s, "BM-1"); !agent.HasToken || agent.Claimable {
				t.Fatalf("%+v", agent)
			}
		}
	})
}

func TestANameKnownFromTheBusIsClaimedOnceAnOperatorAllowsIt(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "one", 1, at(1)))
		if problem := unlike(record(t, s, enrolling(direct(t, "BM-1", "one", 2, at(2)))), notClaimable); problem != "" {
			t.Fatal(problem)
		}
		before := read(t, s, "BM-1")
		if before.HasToken || before.Claimable || !before.LastDirectAt.IsZero() || before.Sequence != 1 {
			t.Fatalf("%+v", before)
		}
		if _, err := s.ResetToken(t.Context(), name(t, "BM-1"), before.Etag()); err != nil {
			t.Fatal(err)
		}
		if problem := unlike(record(t, s, enrolling(direct(t, "BM-1", "one", 1, at(1)))), updated); problem != "" {
			t.Fatal(problem)
		}
		if problem := unlike(record(t, s, direct(t, "BM-1", "one", 3, at(3)), beat(t, "BM-1", "one", 4, at(4))), updated, updated); problem != "" {
			t.Fatal(problem)
		}
		if agent := read(t, s, "BM-1"); !agent.HasToken || !agent.OnServiceBus || agent.Sequence != 4 || !agent.LastDirectAt.Equal(at(3)) || !agent.LastBusAt.Equal(at(4)) {
			t.Fatalf("%+v", agent)
		}
	})
}

// The release before knows nothing of claims; its rows, old and new, are those of names that nobody has claimed.
func TestRowsOfTheReleaseBeforeAreUnclaimed(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		raw.Run(t, `INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt) VALUES ('BM-1', 'bm-1', 'BM-1', 1, 1, '2026-01-02T03:04:05.000Z')`)
		if agent := read(t, s, "BM-1"); agent.HasToken || agent.Claimable {
			t.Fatalf("%+v", agent)
		}
		if problem := unlike(record(t, s, enrolling(direct(t, "BM-1", "one", 1, at(1))), beat(t, "BM-1", "a", 1, at(1))), notClaimable, updated); problem != "" {
			t.Fatal(problem)
		}
	})
}

func TestADirectHeartbeatTellsHowItsAgentIsAssigned(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		batch := []enrollment.Heartbeat{enrolling(direct(t, "Straße-1", "one", 1, at(1))), direct(t, "STRASSE-1", "two", 1, at(1)), beat(t, "BM-2", "a", 1, at(1))}
		for _, want := range []cloud.Agent{{}, {Group: 5, Primary: 7, Secondary: 9}} {
			want.Hash = cloud.Hash("straße-1")
			raw.Run(t, fmt.Sprintf(`UPDATE TblAgent SET AffinityGroupKey = NULLIF(%d, 0), PrimaryControlServerKey = NULLIF(%d, 0), SecondaryControlServerKey = NULLIF(%d, 0)`,
				want.Group, want.Primary, want.Secondary))
			recorded, _, err := s.RecordHeartbeats(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			if want.Key = read(t, s, "straße-1").Key; recorded[0].Agent != want || recorded[1].Agent != (cloud.Agent{}) || recorded[2].Agent != (cloud.Agent{}) {
				t.Fatalf("%+v, want %+v of the first alone", recorded, want)
			}
		}
	})
}
