package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

func TestI9_EachTransitionToOfflineIsLoggedOnce(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 3)
	was, off := keys[0], keys[1]
	d.run(t, fmt.Sprintf("UPDATE TblServer SET Online = 0 WHERE ServerKey = %d", off))
	other := d.server(t, "X-1", "Other", 1)
	token := take(t, d.Store, "a").Token
	sweep := store.Sweep{Token: token, Own: true, Changes: []verdict.Change{
		{Key: was}, {Key: off, Online: true}, {Key: keys[2], Online: true}, {Key: other}, {Key: other + 1},
	}}
	done := record(t, d.Store, sweep)
	if !slices.Equal(done.Offline, []int64{was}) || !slices.Equal(done.Online, []int64{off}) || done.Lease.Token != token {
		t.Fatalf("%+v", done)
	}
	for key, want := range map[int64]int64{was: 0, off: 1, keys[2]: 1, other: 1} {
		if online := d.number(t, fmt.Sprintf("SELECT Online FROM TblServer WHERE ServerKey = %d", key)); online != want {
			t.Errorf("server %d: Online is %d, want %d", key, online, want)
		}
	}
	// A commit whose answer was lost is run again: nothing is changed twice, and nothing logged twice.
	if again := record(t, d.Store, sweep); again.Offline != nil || again.Online != nil {
		t.Fatalf("%+v", again)
	}
	entries, _, err := d.OfflineLog(t.Context(), "BM-1", store.LogSpan{}, 10, nil)
	if err != nil || len(entries) != 1 || !entries[0].Equal(done.At) || d.logged(t) != 1 {
		t.Fatalf("%v %v\n%s", entries, err, d.dump(t, "TblServerOfflineLog"))
	}
	record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: was, Online: true}}})
	record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: was}}})
	if d.logged(t) != 2 {
		t.Fatal(d.dump(t, "TblServerOfflineLog"))
	}
}

func TestI9_WhatAnotherWriterTurnedOfflineFirstIsNotLogged(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 2)
	token := take(t, d.Store, "a").Token
	fleet(t, d.Store)
	d.run(t, fmt.Sprintf("UPDATE TblServer SET Online = 0 WHERE ServerKey = %d", keys[0]))
	done := record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: keys[0]}, {Key: keys[1]}}})
	if !slices.Equal(done.Offline, keys[1:]) || d.logged(t) != 1 {
		t.Fatalf("%+v\n%s", done, d.dump(t, "TblServerOfflineLog"))
	}
}

// Whatever another writer does meanwhile, and however often the job changes hands, there are as many rows as transitions we made.
func TestI9_RowsAreAsManyAsTransitionsUnderOtherWriters(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 5)
	replicas := []*store.Store{d.replica(t), d.replica(t)}
	const rounds = 60
	counts, failures := make(chan int, 2), make(chan error, 3)
	ctx := context.WithoutCancel(t.Context())
	for i, s := range replicas {
		go func() {
			offline := 0
			for range rounds {
				lease, taken, err := s.TakeLease(ctx, fmt.Sprint(i), time.Minute)
				if err != nil {
					failures <- err
				}
				if !taken {
					continue
				}
				var changes []verdict.Change
				for _, key := range keys {
					changes = append(changes, verdict.Change{Key: key, Online: rand.N(2) == 0})
				}
				done, err := s.Record(ctx, store.Sweep{Token: lease.Token, LeaseDuration: time.Minute, Own: true, Changes: changes})
				if err != nil && !errors.Is(err, store.ErrLeaseLost) {
					failures <- err
				}
				offline += len(done.Offline)
				if err := s.ReleaseLease(ctx, lease.Token); err != nil {
					failures <- err
				}
			}
			counts <- offline
		}()
	}
	for range rounds { // the legacy writer
		d.run(t, fmt.Sprintf("UPDATE TblServer SET Online = 1 - Online WHERE ServerKey = %d", keys[rand.N(len(keys))]))
	}
	offline := int64(<-counts + <-counts)
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if logged := d.logged(t); logged != offline || offline == 0 {
		t.Fatalf("%d rows of %d transitions", logged, offline)
	}
}

func TestI9_OnlyTheOwnerWritesOnline(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 1)
	token := take(t, d.Store, "a").Token
	before := d.dump(t, "TblServer", "TblServerOfflineLog")
	done := record(t, d.Store, store.Sweep{
		Token: token, Changes: []verdict.Change{{Key: keys[0]}}, Statuses: []store.Status{silent(keys[0])},
		Paths: verdict.PerPath[store.Path]{{Held: 1}},
	})
	if done.Offline != nil || done.Online != nil || d.dump(t, "TblServer", "TblServerOfflineLog") != before {
		t.Fatalf("%+v\n%s", done, d.dump(t))
	}
	if read := fleet(t, d.Store); read.Servers[0].Status != silent(keys[0]).Status || read.Paths[0].Held != 1 {
		t.Fatalf("%+v", read)
	}
}

func TestI10_ActiveAndAllButOnlineStaysAsItIs(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 4)
	d.run(t, fmt.Sprintf("UPDATE TblServer SET Active = 0, Url = 'https://x' WHERE ServerKey IN (%d, %d)", keys[0], keys[2]))
	d.run(t, fmt.Sprintf("UPDATE TblServer SET Online = 0 WHERE ServerKey IN (%d, %d)", keys[2], keys[3]))
	token := take(t, d.Store, "a").Token
	before := d.dump(t, "TblServer")
	var changes []verdict.Change
	for i, key := range keys {
		changes = append(changes, verdict.Change{Key: key, Online: i >= 2})
	}
	if done := record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: changes}); len(done.Offline) != 2 || len(done.Online) != 2 {
		t.Fatalf("Active must play no part: %+v", done)
	}
	// Somebody else's change of Active, between two sweeps, stays as well.
	d.run(t, "UPDATE TblServer SET Active = 1 - Active")
	d.run(t, "UPDATE TblServer SET Active = 1 - Active")
	for i := range changes {
		changes[i].Online = i < 2
	}
	record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: changes})
	if after := d.dump(t, "TblServer"); after != before {
		t.Fatalf("the servers were\n%s\nand are\n%s", before, after)
	}
}

func TestI9_TheLogIsWrittenInTheTransactionOfTheChange(t *testing.T) {
	for _, failing := range []string{"log_offline", "advance", "write_statuses", "mark_statuses", "write_paths", "paths"} {
		d := onSQLite(t)
		keys := d.servers(t, 2)
		token := take(t, d.Store, "a").Token
		sweep := store.Sweep{
			Token: token, LeaseDuration: time.Minute, Own: true, Changes: []verdict.Change{{Key: keys[0]}}, Statuses: []store.Status{silent(keys[0]), fresh(keys[1])},
			SecondWriters: []int64{keys[1]}, Paths: verdict.PerPath[store.Path]{{Held: 1}},
		}
		before := d.dump(t)
		broken := withStatement(t, d, failing, "SELECT x FROM Nowhere")
		if _, err := broken.Record(t.Context(), sweep); err == nil || !strings.Contains(err.Error(), failing) {
			t.Fatalf("%s: %v", failing, err)
		}
		if after := d.dump(t); after != before {
			t.Fatalf("%s failed, and\n%s\nbecame\n%s", failing, before, after)
		}
		record(t, d.Store, sweep)
		if d.logged(t) != 1 {
			t.Fatal(d.dump(t))
		}
	}
}

func TestADatabaseThatIsReadOnlyForAWhileLosesNothing(t *testing.T) {
	d := onSQLite(t)
	keys := d.servers(t, 1)
	token := take(t, d.Store, "a").Token
	sweep := store.Sweep{Token: token, LeaseDuration: time.Minute, Own: true, Changes: []verdict.Change{{Key: keys[0]}}, Statuses: []store.Status{silent(keys[0])}}
	before := d.dump(t)
	// In the midst of the transaction, after Online was changed and before its row is logged.
	midway := withStatement(t, d, "paths", "PRAGMA query_only = 1")
	if _, err := midway.Record(t.Context(), sweep); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Fatal(err)
	}
	readOnly := func(s *store.Store, on int) {
		if _, err := s.Writer().ExecContext(t.Context(), fmt.Sprintf("PRAGMA query_only = %d", on)); err != nil {
			t.Fatal(err)
		}
	}
	readOnly(d.Store, 1)
	for what, act := range map[string]func() error{
		"record": func() error { _, err := d.Record(t.Context(), sweep); return err },
		"renew":  func() error { _, err := d.RenewLease(t.Context(), token, time.Minute); return err },
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), "readonly") {
			t.Errorf("%s: %v", what, err)
		}
	}
	fleet(t, d.Store) // reading goes on
	if after := d.dump(t); after != before {
		t.Fatalf("\n%s\nbecame\n%s", before, after)
	}
	readOnly(d.Store, 0)
	if done := record(t, d.Store, sweep); len(done.Offline) != 1 || d.logged(t) != 1 {
		t.Fatalf("%+v\n%s", done, d.dump(t))
	}
}

func TestAnOrderGivenDuringASweepIsKept(t *testing.T) {
	mass := verdict.Brake{Since: at(1), Proofs: 1, JudgedAt: at(20)}
	for what, row := range map[string]struct {
		before, during verdict.Order // orders, given before the sweep reads and between its read and its write
		after          verdict.Brake // what the sweep makes of the brake
		want           verdict.Order
	}{
		"none":                                  {after: mass},
		"obeyed, and the mass goes on":          {before: verdict.Apply, after: withOrder(mass, verdict.Apply), want: verdict.Apply},
		"obeyed, and the mass is over":          {before: verdict.Apply, after: verdict.Brake{}},
		"given meanwhile, and the mass is on":   {during: verdict.Apply, after: mass, want: verdict.Apply},
		"given meanwhile, and the mass ended":   {during: verdict.Hold, after: verdict.Brake{}, want: verdict.Hold},
		"changed meanwhile, and the mass ended": {before: verdict.Apply, during: verdict.Hold, after: verdict.Brake{}, want: verdict.Hold},
		"changed meanwhile, and the mass is on": {before: verdict.Hold, during: verdict.Apply, after: withOrder(mass, verdict.Hold), want: verdict.Apply},
		"taken back meanwhile":                  {before: verdict.Hold, during: verdict.NoOrder, after: withOrder(mass, verdict.Hold)},
	} {
		t.Run(what, func(t *testing.T) {
			d := open(t)
			operator := d.replica(t)
			token := take(t, d.Store, "a").Token
			record(t, d.Store, store.Sweep{Token: token, Paths: verdict.PerPath[store.Path]{{State: verdict.PathState{Brake: mass}}}})
			order := func(order verdict.Order) store.Path {
				t.Helper()
				ordered, err := operator.OrderBrake(t.Context(), verdict.Bus, order, fleet(t, operator).Paths[verdict.Bus].Etag(), "ann")
				if err != nil {
					t.Fatal(err)
				}
				return ordered
			}
			if row.before != verdict.NoOrder {
				order(row.before)
			}
			read := fleet(t, d.Store)
			later(t, d) // two orders of one millisecond would be one
			if row.during != verdict.NoOrder || what == "taken back meanwhile" {
				order(row.during)
			}
			read.Paths[verdict.Bus].State.Brake = row.after
			record(t, d.Store, store.Sweep{Token: token, Paths: read.Paths})
			got := fleet(t, d.Store).Paths
			want := row.after
			want.Order = row.want
			if got[verdict.Bus].State.Brake != want || (got[verdict.Bus].OrderedBy == "") != (row.want == verdict.NoOrder) || got[verdict.Bus].OrderedAt.IsZero() != (row.want == verdict.NoOrder) {
				t.Fatalf("%+v, want %+v", got[verdict.Bus], want)
			}
			if got[verdict.Direct] != (store.Path{}) {
				t.Fatalf("%+v", got[verdict.Direct])
			}
		})
	}
}

func withOrder(b verdict.Brake, order verdict.Order) verdict.Brake {
	b.Order = order
	return b
}

func TestI14_OfTwoOrdersOneWins(t *testing.T) {
	d := open(t)
	token := take(t, d.Store, "a").Token
	etag := fleet(t, d.Store).Paths[verdict.Direct].Etag()
	var required *store.EtagRequiredError
	if _, err := d.OrderBrake(t.Context(), verdict.Direct, verdict.Hold, "", "ann"); !errors.As(err, &required) || required.Current != etag {
		t.Fatal(err)
	}
	acts, err := d.Acts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failures := make(chan error, 2)
	for operator, s := range map[string]*store.Store{"ann": d.Store, "bob": d.replica(t)} {
		go func() {
			_, err := s.OrderBrake(context.WithoutCancel(t.Context()), verdict.Direct, verdict.Hold, etag, operator)
			failures <- err
		}()
	}
	one, two := <-failures, <-failures
	var stale *store.StaleEtagError
	if (one == nil) == (two == nil) || !errors.As(errors.Join(one, two), &stale) {
		t.Fatal(one, two)
	}
	ordered := fleet(t, d.Store)
	if held := ordered.Paths[verdict.Direct]; held.State.Brake.Order != verdict.Hold || stale.Current != held.Etag() || ordered.Acts != acts+1 || ordered.Paths[verdict.Bus] != (store.Path{}) {
		t.Fatalf("%+v %v", ordered, stale)
	}
	// Another mass is another brake.
	ordered.Paths[verdict.Direct].State.Brake.Since = at(1)
	record(t, d.Store, store.Sweep{Token: token, Paths: ordered.Paths})
	if _, err := d.OrderBrake(t.Context(), verdict.Direct, verdict.NoOrder, stale.Current, "ann"); !errors.As(err, &stale) {
		t.Fatal("the order was about another mass", err)
	}
	back, err := d.OrderBrake(t.Context(), verdict.Direct, verdict.NoOrder, stale.Current, "ann")
	if err != nil || back != fleet(t, d.Store).Paths[verdict.Direct] || back.OrderedBy != "" || !back.OrderedAt.IsZero() || back.State.Brake.Order != verdict.NoOrder {
		t.Fatalf("%+v %v", back, err)
	}
}

// An order to apply is for a mass that was seen; without one it is refused and nothing is kept for the next.
func TestI11_ApplyNeedsAMass(t *testing.T) {
	s := onSQLite(t)
	before, err := s.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.OrderBrake(t.Context(), verdict.Bus, verdict.Apply, before.Paths[verdict.Bus].Etag(), "operator"); !errors.Is(err, store.ErrNothingBraked) {
		t.Errorf("%v", err)
	}
	after, err := s.Overview(t.Context())
	if err != nil || after.Paths != before.Paths {
		t.Errorf("%+v, %v", after.Paths, err)
	}
}
