package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

func TestALeaseIsHeldByOne(t *testing.T) {
	d := open(t)
	if lease, held, err := d.Lease(t.Context()); err != nil || held || lease != (store.Lease{}) {
		t.Fatal(lease, held, err)
	}
	first := take(t, d.Store, "a")
	other := d.replica(t)
	for _, holder := range []string{"b", "a"} { // another start of the same replica is another holder
		if present, taken, err := other.TakeLease(t.Context(), holder, time.Minute); err != nil || taken || present != first {
			t.Fatal(present, taken, err)
		}
	}
	if present, held, err := other.Lease(t.Context()); err != nil || !held || present != first {
		t.Fatal(present, held, err)
	}
	renewed, err := d.RenewLease(t.Context(), first.Token, time.Hour)
	if err != nil || renewed.Token != first.Token || renewed.Holder != "a" || renewed.ExpiresAt.Sub(first.ExpiresAt) < 58*time.Minute {
		t.Fatal(renewed, err)
	}
	if err := d.ReleaseLease(t.Context(), first.Token); err != nil {
		t.Fatal(err)
	}
	second := take(t, other, "b")
	if second.Token <= first.Token || second.Holder != "b" {
		t.Fatal(second, "after", first)
	}
}

func TestOfReplicasThatTakeTheLeaseAtOnceOneHasIt(t *testing.T) {
	d := open(t)
	replicas := []*store.Store{d.Store, d.replica(t), d.replica(t)}
	var newest int64
	for range 20 {
		d.expireLease(t)
		tokens := make(chan int64, len(replicas))
		for _, s := range replicas {
			go func() {
				lease, taken, err := s.TakeLease(context.WithoutCancel(t.Context()), "same", time.Minute)
				if err != nil {
					t.Error(err)
				}
				if !taken {
					lease.Token = 0
				}
				tokens <- lease.Token
			}()
		}
		had := 0
		for range replicas {
			if token := <-tokens; token > 0 {
				had++
				if token <= newest {
					t.Fatalf("token %d after %d", token, newest)
				}
				newest = token
			}
		}
		if had != 1 {
			t.Fatalf("%d have the lease", had)
		}
	}
}

// A stood still until its lease ran out. What it does then comes to nothing, also before anybody else took the lease.
func TestI15_WhoLostTheLeaseWritesNothing(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 2)
	a, b := d.Store, d.replica(t)
	paused := take(t, a, "a")
	sweep := store.Sweep{
		Token: paused.Token, LeaseDuration: time.Minute, Own: true, Changes: []verdict.Change{{Key: keys[0]}, {Key: keys[1]}},
		Statuses: []store.Status{silent(keys[0])}, SecondWriters: keys, Paths: verdict.PerPath[store.Path]{{Held: 3}},
	}
	refused := func(when string) {
		t.Helper()
		before := d.dump(t)
		for what, act := range map[string]func() error{
			"record": func() error { _, err := a.Record(t.Context(), sweep); return err },
			"record of nothing": func() error {
				_, err := a.Record(t.Context(), store.Sweep{Token: paused.Token, LeaseDuration: time.Minute})
				return err
			},
			"renew": func() error { _, err := a.RenewLease(t.Context(), paused.Token, time.Minute); return err },
			"prune": func() error { return a.PruneStatuses(t.Context(), paused.Token) },
		} {
			if err := act(); !errors.Is(err, store.ErrLeaseLost) {
				t.Errorf("%s, %s: %v", when, what, err)
			}
		}
		if err := a.ReleaseLease(t.Context(), paused.Token); err != nil {
			t.Errorf("%s, release: %v", when, err)
		}
		if after := d.dump(t); after != before {
			t.Errorf("%s,\n%s\nbecame\n%s", when, before, after)
		}
	}
	d.expireLease(t)
	refused("run out")
	taken := take(t, b, "b")
	refused("taken by another")
	mine := store.Sweep{Token: taken.Token, Own: true, Changes: []verdict.Change{{Key: keys[0]}}, Statuses: []store.Status{silent(keys[0])}}
	if done := record(t, b, mine); len(done.Offline) != 1 {
		t.Fatalf("%+v", done)
	}
	refused("written by another")
	if err := b.ReleaseLease(t.Context(), taken.Token); err != nil {
		t.Fatal(err)
	}
	refused("released by another")
	if d.logged(t) != 1 {
		t.Fatal(d.dump(t, "TblServerOfflineLog"))
	}
	// Its turn may come again, with a new token.
	sweep.Token = take(t, a, "a").Token
	if done := record(t, a, sweep); len(done.Offline) != 1 || d.logged(t) != 2 {
		t.Fatalf("%+v", done)
	}
}

// The lease comes first: a transaction without it touches no other row, and so waits for nobody.
func TestI15_TheLeaseIsTheFirstStatement(t *testing.T) {
	d := onSQLite(t)
	keys := d.servers(t, 1)
	token := take(t, d.Store, "a").Token
	d.expireLease(t)
	for _, statement := range []string{"set_online", "log_offline", "paths", "advance", "write_statuses", "prune_statuses", "prune_switches", "prune_windows"} {
		broken := withStatement(t, d, statement, "SELECT x FROM Nowhere")
		if _, err := broken.Record(t.Context(), store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: keys[0]}}}); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("%s came before the lease: %v", statement, err)
		}
		if err := broken.PruneStatuses(t.Context(), token); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("%s came before the lease: %v", statement, err)
		}
	}
}

func TestEachRecordRenewsTheLease(t *testing.T) {
	d := open(t)
	lease := take(t, d.Store, "a")
	done, err := d.Record(t.Context(), store.Sweep{Token: lease.Token, LeaseDuration: time.Hour})
	if err != nil || done.Lease.ExpiresAt.Sub(done.At) != time.Hour {
		t.Fatalf("%+v %v", done, err)
	}
	if present, held, err := d.Lease(t.Context()); err != nil || !held || present != done.Lease {
		t.Fatal(present, held, err)
	}
}

func TestALostLeaseRowIsNamed(t *testing.T) {
	d := onSQLite(t)
	d.run(t, "DELETE FROM TblJobLease")
	if _, taken, err := d.TakeLease(t.Context(), "a", time.Minute); err == nil || taken {
		t.Fatal(taken, err)
	}
	if _, _, err := d.Lease(t.Context()); err == nil {
		t.Fatal("no error")
	}
}
