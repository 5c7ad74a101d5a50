package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func TestControlServerJoinsAndRenews(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		asking := cloud.Candidate{
			Name: " Control-1 ", Endpoints: store.Endpoints("Control-1:8443", "https://control-1"), Version: "1.0", Protocols: cloud.Protocols{Min: 1, Max: 2},
		}
		self, judged, err := w.one.Renew(t.Context(), asking, store.Reported{Connected: 7})
		if err != nil || self.State != cloud.Normal || self.ID != 1 || self.Name != "Control-1" || self.Weight != 100 || self.Connected != 7 || self.Mode != cloud.ModeNormal || len(judged.Members) != 1 {
			t.Fatalf("%+v %v", self, err)
		}
		w.silence("Control-1", time.Minute)
		if state := w.server("Control-1").State; state != cloud.Suspect {
			t.Fatal(state)
		}
		asking.Name, asking.Version, asking.Endpoints, asking.Protocols.Max = "CONTROL-1", "1.1", store.Endpoints("control-1:8443", "https://new"), 3
		again, _, err := w.two.Renew(t.Context(), asking, store.Reported{Connected: 3})
		grpc, rest := store.Addresses(again.Endpoints)
		if err != nil || again.ID != 1 || again.Name != "Control-1" || again.State != cloud.Normal || again.Version != "1.1" || again.Connected != 3 ||
			grpc != "control-1:8443" || rest != "https://new" || again.Protocols.Max != 3 || again.Etag() != self.Etag() {
			t.Fatalf("%+v %v", again, err)
		}
	})
}

// race runs two acts at once, and tells how each ended.
func race(one, two func() error) [2]error {
	var ended [2]error
	var group sync.WaitGroup
	for i, act := range []func() error{one, two} {
		group.Go(func() { ended[i] = act() })
	}
	group.Wait()
	return ended
}

func TestI14_TwoReplicasLetTwoServersJoinAtOnce(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		for round := range 10 {
			name := fmt.Sprintf("control-%d", round)
			for _, clash := range []struct {
				other  cloud.Candidate
				reason cloud.Reason
			}{
				{cloud.Candidate{Name: name, Endpoints: []string{name + "-b:1"}}, cloud.NameTaken},
				{cloud.Candidate{Name: name + "-b", Endpoints: []string{name + ":8443"}}, cloud.EndpointTaken},
				{cloud.Candidate{Name: name + "-c", Endpoints: []string{name + "-c:1", name + ":8443"}}, cloud.EndpointTaken},
			} {
				w.exec(`DELETE FROM TblControlServer`)
				clash.other.Protocols = candidate(name).Protocols
				join := func(replica *store.Cloud, c cloud.Candidate) func() error {
					return func() error {
						_, _, err := replica.Renew(context.Background(), c, store.Reported{Connected: 0})
						return err
					}
				}
				ended := race(join(w.one, candidate(name)), join(w.two, clash.other))
				if (ended[0] == nil) == (ended[1] == nil) {
					t.Fatalf("%v: one of them must win: %v", clash.other, ended)
				}
				winner, loser := name, ended[1]
				if loser == nil {
					winner, loser = clash.other.Name, ended[0]
				}
				if reason, holder := refusedAs(loser); reason != clash.reason || holder != winner {
					t.Fatalf("the loser is told %v, which names %q; %q won", loser, holder, winner)
				}
				if rows := w.rows(`SELECT Name FROM TblControlServer`); rows != winner+"\n" {
					t.Fatal(rows)
				}
			}
		}
	})
}

func TestI17_AClashChangesNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		for reason, asking := range map[cloud.Reason]cloud.Candidate{
			cloud.NameTaken:      {Name: "A", Endpoints: []string{"other:1"}, Protocols: cloud.Protocols{Min: 1, Max: 1}},
			cloud.EndpointTaken:  {Name: "c", Endpoints: []string{"A:8443"}, Protocols: cloud.Protocols{Min: 1, Max: 1}},
			cloud.ProtocolsApart: {Name: "c", Endpoints: []string{"c:1"}, Protocols: cloud.Protocols{Min: 3, Max: 4}},
			cloud.Invalid:        {Name: "c", Protocols: cloud.Protocols{Min: 1, Max: 1}},
		} {
			refuses[*cloud.Refusal](w, fmt.Sprint(asking), func() error {
				_, _, err := w.two.Renew(t.Context(), asking, store.Reported{Connected: 0})
				if got, holder := refusedAs(err); got != reason || reason != cloud.Invalid && holder != "a" {
					t.Errorf("%v: %v", asking, err)
				}
				return err
			})
		}
	})
}

func TestASilentServerIsReplacedAtItsEndpoint(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("old", "other")
		w.settle()
		w.silence("old", 10*time.Minute)
		taking := candidate("new")
		taking.Endpoints = []string{"OLD:8443"}
		self, _, err := w.one.Renew(t.Context(), taking, store.Reported{Connected: 0})
		if err != nil || self.ID != 3 {
			t.Fatal(self, err)
		}
		if rows := w.rows(`SELECT ControlServerKey, Name FROM TblControlServer ORDER BY 1`); rows != "2 other\n3 new\n" {
			t.Fatal(rows)
		}
		if got := fmt.Sprint(w.settle().Causes); got != "[{leave 1 old   } {join 3 new  normal }]" {
			t.Error(got)
		}
	})
}

func TestKeysAreNeverUsedAgain(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.settle()
		w.update("b", store.ControlServerChange{Mode: cloud.ModeMaintenance})
		w.settle()
		before := w.server("b")
		if err := w.one.RemoveServer(t.Context(), parsed(t, "B"), before.Etag(), "anna"); err != nil {
			t.Fatal(err)
		}
		w.join("b")
		if after := w.server("b"); after.ID != 3 || after.Mode != cloud.ModeNormal {
			t.Fatalf("%+v", after)
		}
	})
}

func TestLeavingEndsTheLeaseAndNothingElse(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(30)
		w.settle()
		leave := func(name, endpoint string) {
			t.Helper()
			before := w.dump()
			if err := w.two.Leave(t.Context(), parsed(t, name), endpoint); err != nil {
				t.Fatal(err)
			}
			if w.dump() != before {
				t.Errorf("leaving as %s at %s changed more than the lease", name, endpoint)
			}
		}
		leave("a", "elsewhere:1")
		leave("nobody", "nobody:1")
		if state := w.server("a").State; state != cloud.Normal {
			t.Fatalf("another server under the name ended its lease: %s", state)
		}
		leave("A", "a:8443")
		if state := w.server("a").State; state != cloud.Suspect {
			t.Fatal(state)
		}
		w.silence("a", time.Minute)
		renewedAt := w.server("a").RenewedAt
		leave("a", "a:8443")
		if again := w.server("a").RenewedAt; again != renewedAt {
			t.Errorf("the second time made its lease younger: from %s to %s", renewedAt, again)
		}
		w.expectUnchanged("left")
		w.join("a")
		if state := w.server("a").State; state != cloud.Normal {
			t.Fatal(state)
		}
		w.expectUnchanged("back")
	})
}

func TestI14_AControlServerIsChangedFromWhatWasSeen(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		seen := w.server("a")
		weight, group := 7, "nowhere"
		update := func(name, etag string, change store.ControlServerChange) func() error {
			return func() error {
				_, err := w.two.UpdateServer(t.Context(), parsed(t, name), etag, change, "bob")
				return err
			}
		}
		refuses[*store.EtagRequiredError](w, "no etag", update("a", "", store.ControlServerChange{Weight: &weight}))
		refuses[*store.ControlServerNotFoundError](w, "unknown", update("z", seen.Etag(), store.ControlServerChange{Weight: &weight}))
		refuses[*store.GroupNotFoundError](w, "unknown group", update("a", seen.Etag(), store.ControlServerChange{Group: &group}))
		unchanged := w.dump()
		if err := update("a", seen.Etag(), store.ControlServerChange{Weight: &seen.Weight})(); err != nil || w.dump() != unchanged {
			t.Fatalf("what is so already is no decision: %v", err)
		}
		after := w.update("a", store.ControlServerChange{Weight: &weight})
		if after.Weight != 7 || after.ChangedBy != "anna" || after.Etag() == seen.Etag() || after.Mode != cloud.ModeNormal {
			t.Fatalf("%+v", after)
		}
		refuses[*store.StaleEtagError](w, "changed meanwhile", update("a", seen.Etag(), store.ControlServerChange{Mode: cloud.ModeMaintenance}))
		if renewed := w.server("a"); renewed.Etag() != after.Etag() {
			t.Error("a renewal moved the etag")
		}
	})
}

func TestI14_OfTwoOperatorsAtOnceOneIsTold(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a")
		for round := range 10 {
			etag := w.server("a").Etag()
			set := func(replica *store.Cloud, weight int) func() error {
				return func() error {
					_, err := replica.UpdateServer(context.Background(), parsed(t, "a"), etag, store.ControlServerChange{Weight: &weight}, "x")
					return err
				}
			}
			ended := race(set(w.one, 200+round), set(w.two, 300+round))
			if (ended[0] == nil) == (ended[1] == nil) {
				t.Fatal(ended)
			}
		}
	})
}

func TestRemovalIsRefusedWhileAgentsDependOnIt(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(30)
		w.settle()
		remove := func(name string) func() error {
			return func() error {
				return w.one.RemoveServer(t.Context(), parsed(t, name), w.server(name).Etag(), "anna")
			}
		}
		refuses[*cloud.Refusal](w, "normal", remove("a"))
		w.silence("a", time.Minute)
		refuses[*cloud.Refusal](w, "suspect", remove("a"))
		w.silence("a", time.Hour)
		refuses[*cloud.Refusal](w, "evicted, and its agents not moved yet", remove("a"))
		w.settle()
		refuses[*store.StaleEtagError](w, "another etag", func() error { return w.one.RemoveServer(t.Context(), parsed(t, "a"), "1-99", "anna") })
		if err := remove("a")(); err != nil {
			t.Fatal("evicted: ", err)
		}
		refuses[*store.ControlServerNotFoundError](w, "gone", func() error { return w.one.RemoveServer(t.Context(), parsed(t, "a"), "x", "anna") })

		w.update("b", store.ControlServerChange{Mode: cloud.ModeMaintenance})
		refuses[*cloud.Refusal](w, "draining, still listed", remove("b"))
		w.settle()
		w.exec(`UPDATE TblControlServer SET Connected = 3 WHERE Name = 'b'`)
		refuses[*cloud.Refusal](w, "draining, with agents that have yet to hear of it", remove("b"))
		w.exec(`UPDATE TblControlServer SET Connected = 0 WHERE Name = 'b'`)
		if err := remove("b")(); err != nil {
			t.Fatal("drained: ", err)
		}
		w.enlist(31)
		if got := fmt.Sprint(w.settle().Causes); got != "[{agent change 0    }]" {
			t.Fatal("nobody moves at the removal of one that no list names, and it is told as the cause: ", got)
		}
	})
}

// One that has no agents may be removed while lists still name it, and the event says whose act it was.
func TestI16_TheRemovalOfAListedServerIsTold(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.update("b", store.ControlServerChange{Standby: new(true)})
		w.enlist(30)
		w.settle()
		b := w.update("b", store.ControlServerChange{Mode: cloud.ModeMaintenance})
		if err := w.one.RemoveServer(t.Context(), parsed(t, "b"), b.Etag(), "berta"); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.settle().Causes); got != "[{leave 2 b   berta}]" {
			t.Fatal(got)
		}
	})
}

func TestMaintenanceDrainsFirst(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(20)
		w.settle()
		if got := w.update("a", store.ControlServerChange{Mode: cloud.ModeMaintenance}); got.State != cloud.Draining || !w.one.DrainEndsAt(got).IsZero() || !got.Listing.Listed {
			t.Fatalf("%+v", got)
		}
		if got := fmt.Sprint(w.settle().Causes); got != "[{mode change 1 a normal draining anna}]" {
			t.Error(got)
		}
		drained := w.server("a")
		if drained.State != cloud.Draining || drained.Assigned != 0 || w.one.DrainEndsAt(drained) != drained.Listing.UnlistedAt.Add(5*time.Minute) || w.server("b").Assigned != 20 {
			t.Fatalf("%+v", drained)
		}
		w.exec(`UPDATE TblControlServer SET UnlistedAt = ` + w.raw.Since(w.raw.Now(), 300) + ` WHERE Name = 'a'`)
		self, _, err := w.two.Renew(t.Context(), candidate("a"), store.Reported{Connected: 0}) // as after a restart
		if err != nil || self.State != cloud.Maintenance || self.State.Serves() {
			t.Fatalf("%+v %v", self, err)
		}
		w.expectUnchanged("in maintenance")
		w.update("a", store.ControlServerChange{Mode: cloud.ModeNormal})
		if got := fmt.Sprint(w.settle().Causes); got != "[{mode change 1 a draining normal anna}]" {
			t.Error(got)
		}
		if got := w.server("a"); got.State != cloud.Normal || got.Assigned != 10 {
			t.Fatalf("%+v", got)
		}
	})
}
