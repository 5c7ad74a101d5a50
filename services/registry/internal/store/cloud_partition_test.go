package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// watchWrites notes which agents' assignments are written from now on.
func (w *world) watchWrites() {
	w.t.Helper()
	w.raw.Note(w.t, "TblAgent", "AgentKey")
}

func (w *world) written() int {
	w.t.Helper()
	return w.raw.Number(w.t, `SELECT COUNT(*) FROM TblTestWritten`)
}

func TestI16_APartitionIsStoredWhole(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(90)
		if directory, err := w.two.Directory(t.Context()); err != nil || directory.Version != 0 {
			t.Fatal(directory, err)
		}
		s, p := w.situation(w.one)
		event, err := w.one.Commit(t.Context(), s, p)
		if err != nil || event.Epoch != 1 || event.Agents != 90 || event.Placed != 90 || len(event.Causes) != 3 || time.Since(event.At).Abs() > time.Hour {
			t.Fatalf("%+v %v", event, err)
		}
		directory, err := w.two.Directory(t.Context())
		if err != nil || fmt.Sprint(directory) != fmt.Sprint(p.Directory) || directory.Version != 1 {
			t.Fatalf("%v, committed %v: %v", directory, p.Directory, err)
		}
		look, err := w.two.Look(t.Context())
		if err != nil || look.Epoch != 1 || look.DirectoryVersion != 1 || look.State.Agents != 90 || look.Unassigned || look.Requested {
			t.Fatalf("%+v %v", look, err)
		}
		for _, m := range look.Members {
			if !m.Listing.Listed || !m.Listing.UnlistedAt.IsZero() {
				t.Errorf("%+v", m.Listing)
			}
		}
		counts, err := w.two.AgentsByPrimary(t.Context())
		if err != nil || fmt.Sprint(counts) != "map[1:30 2:30 3:30]" {
			t.Fatal(counts, err)
		}
		agent, err := w.two.Assignment(t.Context(), parsed(t, "bm-000007"))
		if err != nil || agent.Key != 7 || agent.Primary == 0 || agent.Secondary == 0 || agent.Primary == agent.Secondary || agent.Hash != cloud.Hash("BM-000007") {
			t.Fatal(agent, err)
		}
		var missing *store.AgentNotFoundError
		if _, err := w.two.Assignment(t.Context(), parsed(t, "BM-7")); !errors.As(err, &missing) {
			t.Fatal(err)
		}
		w.expectUnchanged("committed")
	})
}

func TestI16_OnlyMoversAreWritten(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c", "d")
		w.enlist(5_000) // more than one batch
		w.settle()
		w.watchWrites()
		w.join("e")
		s, p := w.situation(w.one)
		event, err := w.one.Commit(t.Context(), s, p)
		if err != nil || event.PrimariesMoved != 1_000 || w.written() != len(p.Moves) || len(p.Moves) >= 3_000 {
			t.Fatalf("%d rows for %d movers: %+v %v", w.written(), len(p.Moves), event, err)
		}
		w.expectUnchanged("joined")
		w.watchWrites()
		w.enlist(5_010)
		if look, err := w.two.Look(t.Context()); err != nil || !look.Unassigned {
			t.Fatal("new agents wait, and nobody sees it", err)
		}
		if event := w.settle(); event.Placed != 10 || w.written() != 10 {
			t.Fatalf("new agents alone: %d rows: %+v", w.written(), event)
		}
		w.watchWrites()
		w.silence("c", time.Hour)
		if event := w.settle(); event.PrimariesMoved == 0 || w.rows(`SELECT COUNT(*) FROM TblAgent WHERE PrimaryControlServerKey = 3 OR SecondaryControlServerKey = 3`) != "0\n" {
			t.Fatalf("%+v", event)
		}
	})
}

func TestI16_OfTwoPartitionsAtOnceOneEpochWins(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(500)
		w.settle()
		w.watchWrites()
		w.join("c")
		first, p := w.situation(w.one)
		w.join("d")
		second, q := w.situation(w.two)
		if _, err := w.one.Commit(t.Context(), first, p); err != nil {
			t.Fatal(err)
		}
		before, rows := w.dump(), w.written()
		if _, err := w.two.Commit(t.Context(), second, q); !errors.Is(err, store.ErrOvertaken) {
			t.Fatal(err)
		}
		if err := w.two.Settle(t.Context(), second); !errors.Is(err, store.ErrOvertaken) {
			t.Fatal(err)
		}
		if w.dump() != before || w.written() != rows {
			t.Fatal("the loser wrote")
		}
		if got := fmt.Sprint(w.settle().Causes); got != "[{join 4 d  normal }]" {
			t.Fatal("what only the loser knew is lost: ", got)
		}
	})
}

func TestI16_TwoReplicasCommitAtTheSameMoment(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(300)
		w.settle()
		for round := range 10 {
			w.update("a", store.ControlServerChange{Weight: new(100 + 10*(round+1))})
			s, p := w.situation(w.one)
			w.watchWrites()
			commit := func(replica *store.Cloud) func() error {
				return func() error { _, err := replica.Commit(context.Background(), s, p); return err }
			}
			ended := race(commit(w.one), commit(w.two))
			if (ended[0] == nil) == (ended[1] == nil) || !errors.Is(errors.Join(ended[:]...), store.ErrOvertaken) {
				t.Fatal(ended)
			}
			if w.written() != len(p.Moves) {
				t.Fatalf("%d rows for %d movers", w.written(), len(p.Moves))
			}
		}
		if got := w.rows(`SELECT COUNT(*), MAX(Epoch) FROM TblPartitionEvent`); got != "11 11\n" {
			t.Fatal(got)
		}
	})
}

// The answer to a commit was lost, and it is tried again.
func TestI16_ACommitRepeatedChangesNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(100)
		s, p := w.situation(w.one)
		if _, err := w.one.Commit(t.Context(), s, p); err != nil {
			t.Fatal(err)
		}
		before := w.dump()
		for _, replica := range []*store.Cloud{w.one, w.two} {
			if _, err := replica.Commit(t.Context(), s, p); !errors.Is(err, store.ErrOvertaken) || w.dump() != before {
				t.Fatal(err)
			}
		}
		w.expectUnchanged("repeated")
	})
}

// Whatever was asked for after the situation was read is still asked for after the commit.
func TestWhatIsAskedMeanwhileStaysAskedFor(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(20)
		w.create("east", store.GroupChange{AddServers: names(t, "a")})
		s, p := w.situation(w.one)
		w.regroup("east", store.GroupChange{AddAgents: names(t, "BM-000001")})
		if _, err := w.one.Commit(t.Context(), s, p); err != nil {
			t.Fatal(err)
		}
		if look, err := w.two.Look(t.Context()); err != nil || !look.Requested {
			t.Fatal("it was forgotten", err)
		}
		s, _ = w.situation(w.one)
		w.regroup("east", store.GroupChange{AddAgents: names(t, "BM-000002")})
		if err := w.one.Settle(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if look, err := w.two.Look(t.Context()); err != nil || !look.Requested {
			t.Fatal("it was forgotten", err)
		}
		stale := s
		if s, _ = w.situation(w.one); w.two.Settle(t.Context(), s) != nil {
			t.Fatal("not settled")
		}
		if err := w.one.Settle(t.Context(), stale); !errors.Is(err, store.ErrOvertaken) {
			t.Fatal("what was served is asked for again: ", err)
		}
	})
}

func TestI16_AFailedCommitWritesNothingAndStaysAskedFor(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(100)
		w.create("east", store.GroupChange{AddAgents: names(t, "BM-000001")})
		before := w.dump()
		w.raw.Refuse(t, "INSERT", "TblPartitionEvent")
		s, p := w.situation(w.one)
		if _, err := w.one.Commit(t.Context(), s, p); err == nil || errors.Is(err, store.ErrOvertaken) {
			t.Fatal(err)
		}
		if look, err := w.two.Look(t.Context()); err != nil || !look.Requested || w.dump() != before {
			t.Fatal("something was written", err)
		}
		w.raw.Allow(t)
		w.settle()
		w.expectUnchanged("settled")
	})
}

func TestI16_SuspectAndBackIsNoPartition(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(60)
		w.settle()
		w.silence("b", 299*time.Second)
		w.expectUnchanged("suspect")
		w.join("b")
		w.expectUnchanged("back")
		w.silence("b", 301*time.Second)
		if got := fmt.Sprint(w.settle().Causes); got != "[{eviction 2 b   }]" {
			t.Fatal(got)
		}
		if b := w.server("b"); b.State != cloud.Evicted || b.Assigned != 0 || b.Listing.Listed || b.Listing.UnlistedAs != cloud.Evicted || b.Listing.UnlistedAt.IsZero() {
			t.Fatalf("%+v", b)
		}
		w.join("b")
		if got := fmt.Sprint(w.settle().Causes); got != "[{join 2 b evicted normal }]" {
			t.Fatal(got)
		}
		if b := w.server("b"); b.Assigned != 20 || !b.Listing.Listed {
			t.Fatalf("%+v", b)
		}
	})
}

func TestI16_AMassThatFallsSilentIsNotEvicted(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(60)
		w.settle()
		w.silence("a", time.Hour)
		w.silence("b", time.Hour)
		if o := w.overview(); !o.Frozen() || w.server("a").State != cloud.Suspect {
			t.Fatalf("%+v", o.Membership)
		}
		w.expectUnchanged("frozen")
		w.join("b")
		if got := fmt.Sprint(w.settle().Causes); got != "[{eviction 1 a   }]" {
			t.Fatal(got)
		}
	})
}

func TestEventsAreKeptFor30Days(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a")
		for i := range 5 {
			w.enlist(10 * (i + 1))
			w.settle()
		}
		for epoch, days := range map[int]int{1: 31, 2: 29} {
			w.exec(`UPDATE TblPartitionEvent SET At = `+w.raw.Since(w.raw.Now(), days*24*3600)+` WHERE Epoch = @p1`, epoch)
		}
		w.enlist(60)
		w.settle()
		if err := w.one.ForgetEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		page := func(filter store.EventFilter, limit int, after *store.Cursor) ([]int64, *store.Cursor) {
			t.Helper()
			events, next, err := w.two.Events(t.Context(), filter, limit, after)
			if err != nil {
				t.Fatal(err)
			}
			var epochs []int64
			for _, e := range events {
				epochs = append(epochs, e.Epoch)
			}
			return epochs, next
		}
		epochs, next := page(store.EventFilter{}, 3, nil)
		if !slices.Equal(epochs, []int64{6, 5, 4}) || next == nil {
			t.Fatal(epochs, next)
		}
		if epochs, next = page(store.EventFilter{}, 3, next); !slices.Equal(epochs, []int64{3, 2}) || next != nil {
			t.Fatal(epochs, next)
		}
		if epochs, next = page(store.EventFilter{OldestFirst: true}, 3, nil); !slices.Equal(epochs, []int64{2, 3, 4}) || next == nil {
			t.Fatal(epochs, next)
		}
		if epochs, next = page(store.EventFilter{OldestFirst: true}, 3, next); !slices.Equal(epochs, []int64{5, 6}) || next != nil {
			t.Fatal(epochs, next)
		}
		hourAgo := time.Now().Add(-time.Hour)
		if epochs, _ = page(store.EventFilter{StartAt: hourAgo}, 9, nil); !slices.Equal(epochs, []int64{6, 5, 4, 3}) {
			t.Fatal(epochs)
		}
		if epochs, _ = page(store.EventFilter{EndAt: hourAgo}, 9, nil); !slices.Equal(epochs, []int64{2}) {
			t.Fatal(epochs)
		}
		events, _, err := w.two.Events(t.Context(), store.EventFilter{EndAt: hourAgo}, 1, nil)
		if err != nil || events[0].Agents != 20 || events[0].Placed != 10 || fmt.Sprint(events[0].Causes) != "[{agent change 0    }]" {
			t.Fatalf("%+v %v", events, err)
		}
	})
}

// Agents are found, and sorted, by the control server that is their primary.
func TestAgentsOfAControlServer(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("CS-A", "cs-b")
		w.enlist(10)
		w.settle()
		all, _, total, err := w.store.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "control_server"}, 100, nil)
		if err != nil || total != 10 || len(all) != 10 {
			t.Fatal(len(all), total, err)
		}
		for key, from := range map[string]int{"cs-a": 0, "cs-b": 5} {
			found, _, total, err := w.store.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name", Primary: key}, 100, nil)
			if err != nil || total != 5 || len(found) != 5 {
				t.Fatalf("%s: %d of %d, %v", key, len(found), total, err)
			}
			for _, agent := range found {
				if !slices.ContainsFunc(all[from:from+5], func(a store.Agent) bool { return a.Key == agent.Key }) {
					t.Errorf("%s of %s does not stand with its like", agent.Name, key)
				}
			}
		}
	})
}
