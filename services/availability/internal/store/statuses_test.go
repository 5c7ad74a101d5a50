package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/paging"
)

func TestStatusesAreFilteredAndPaged(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 6)
	d.server(t, "BM-7", "Other", 1)
	held, maintained := fresh(keys[1]), silent(keys[2])
	held.Held, maintained.Maintenance = verdict.Braked, true
	record(t, d.Store, store.Sweep{
		Token: take(t, d.Store, "a").Token, Own: true, Changes: []verdict.Change{{Key: keys[0]}},
		Statuses: []store.Status{silent(keys[0]), held, maintained, fresh(keys[3]), {Status: verdict.Status{
			Key: keys[4], Online: true, Since: at(1), Verdict: verdict.Verdict{Reason: verdict.NeverAccepted},
		}}},
	})
	any := store.Filter{Held: -1, Maintenance: -1, Disagrees: -1}
	for what, row := range map[string]struct {
		change func(*store.Filter)
		want   []int
	}{
		"all":                {func(*store.Filter) {}, []int{1, 2, 3, 4, 5, 6}},
		"unavailable":        {func(f *store.Filter) { f.Verdicts = []verdict.Availability{verdict.Unavailable} }, []int{1, 3}},
		"unknown, available": {func(f *store.Filter) { f.Verdicts = []verdict.Availability{verdict.Unknown, verdict.Available} }, []int{2, 4, 5}},
		"held":               {func(f *store.Filter) { f.Held = 1 }, []int{2}},
		"not held":           {func(f *store.Filter) { f.Held = 0 }, []int{1, 3, 4, 5, 6}},
		"maintenance":        {func(f *store.Filter) { f.Maintenance = 1 }, []int{3}},
		"no maintenance":     {func(f *store.Filter) { f.Maintenance = 0 }, []int{1, 2, 4, 5, 6}},
		"disagrees":          {func(f *store.Filter) { f.Disagrees = 1 }, []int{3}},
		"agrees":             {func(f *store.Filter) { f.Disagrees = 0 }, []int{1, 2, 4, 5, 6}},
		"name":               {func(f *store.Filter) { f.Query = "m-5" }, []int{5}},
		"no name":            {func(f *store.Filter) { f.Query = "%" }, nil},
		"offline":            {func(f *store.Filter) { f.States = []verdict.State{verdict.StateOffline} }, []int{1}},
		"online":             {func(f *store.Filter) { f.States = []verdict.State{verdict.StateOnline} }, []int{4}},
		"state held":         {func(f *store.Filter) { f.States = []verdict.State{verdict.StateHeld} }, []int{2}},
		"state maintenance":  {func(f *store.Filter) { f.States = []verdict.State{verdict.StateMaintenance} }, []int{3}},
		"state unknown":      {func(f *store.Filter) { f.States = []verdict.State{verdict.StateUnknown} }, []int{5, 6}},
		"every state":        {func(f *store.Filter) { f.States = verdict.States() }, []int{1, 2, 3, 4, 5, 6}},
		"keys of two states": {func(f *store.Filter) {
			f.Keys, f.States = keys[:5], []verdict.State{verdict.StateHeld, verdict.StateUnknown}
		}, []int{2, 5}},
		"keys":              {func(f *store.Filter) { f.Keys = []int64{keys[5], keys[0], keys[0], keys[5] + 1, 0} }, []int{1, 6}},
		"keys and more":     {func(f *store.Filter) { f.Keys, f.Disagrees, f.Query = keys[:3], 1, "BM" }, []int{3}},
		"keys, unavailable": {func(f *store.Filter) { f.Keys, f.Verdicts = keys[:2], []verdict.Availability{verdict.Unavailable} }, []int{1}},
		"keys, held":        {func(f *store.Filter) { f.Keys, f.Held = keys[:3], 1 }, []int{2}},
		"keys, maintenance": {func(f *store.Filter) { f.Keys, f.Maintenance = keys[:3], 1 }, []int{3}},
	} {
		filter := any
		row.change(&filter)
		var got []int
		for after, more := int64(0), true; more; {
			page, next, err := d.Statuses(t.Context(), filter, 2, after)
			if err != nil || len(page) > 2 || next && len(page) < 2 {
				t.Fatal(what, page, next, err)
			}
			for _, server := range page {
				got, after = append(got, slices.Index(keys, server.Key)+1), server.Key
			}
			more = next
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", what, got, row.want)
		}
	}
}

// Whatever the order, pages hold each server once, and follow each other.
func TestStatusesComeInTheOrderAskedFor(t *testing.T) {
	d := open(t)
	keys := []int64{d.server(t, "BM-C", store.ServerType, 1), d.server(t, "bm-a", store.ServerType, 1), d.server(t, "BM-B", store.ServerType, 1), d.server(t, "BM-D", store.ServerType, 0)}
	d.server(t, "X-1", "Other", 1)
	for order, want := range map[paging.Order][]int{
		{By: "key"}: {0, 1, 2, 3}, {By: "key", Descending: true}: {3, 2, 1, 0},
		{By: "name"}: {1, 2, 0, 3}, {By: "name", Descending: true}: {3, 0, 2, 1},
		// None is judged yet: they are alike, and stand by key.
		{By: "verdict"}: {0, 1, 2, 3}, {By: "verdict", Descending: true}: {0, 1, 2, 3}, {By: "since"}: {0, 1, 2, 3}, {By: "since", Descending: true}: {0, 1, 2, 3},
	} {
		for _, limit := range []int{1, 2, 3, 100} {
			var got []int
			for after := (*store.StatusCursor)(nil); ; {
				page, next, err := d.SortedStatuses(t.Context(), store.Filter{Held: -1, Maintenance: -1, Disagrees: -1}, order, limit, after)
				if err != nil || len(page) > limit {
					t.Fatal(page, err)
				}
				for _, server := range page {
					got = append(got, slices.Index(keys, server.Key))
				}
				if after = next; after == nil {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v in pages of %d: %v, not %v", order, limit, got, want)
			}
		}
	}
	found, next, err := d.SortedStatuses(t.Context(), store.Filter{Held: -1, Maintenance: -1, Disagrees: -1, Query: "m-b"}, paging.Order{By: "name"}, 10, nil)
	if err != nil || next != nil || len(found) != 1 || found[0].Key != keys[2] {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestAServerIsFoundByName(t *testing.T) {
	d := open(t)
	key := d.servers(t, 1)[0]
	d.server(t, "X-1", "Other", 1)
	d.server(t, "Twin", store.ServerType, 1)
	d.server(t, "twin", "Other", 1)
	if found, err := d.StatusOf(t.Context(), "bm-1"); err != nil || found.Key != key || found.Status.Verdict.Reason != "" {
		t.Fatal(found, err)
	}
	var missing *store.ServerNotFoundError
	if _, err := d.StatusOf(t.Context(), "BM-9"); !errors.As(err, &missing) || missing.Name != "BM-9" {
		t.Fatal(err)
	}
	var double *store.ServerAmbiguousError
	if _, err := d.StatusOf(t.Context(), "TWIN"); !errors.As(err, &double) || len(double.Keys) != 2 {
		t.Fatal(err)
	}
	var kind *store.ServerTypeError
	if _, err := d.StatusOf(t.Context(), "X-1"); !errors.As(err, &kind) || kind.Type != "Other" || !strings.Contains(err.Error(), "only BenefitManager servers are judged") {
		t.Fatal(err)
	}
	for what, act := range map[string]func(string) error{
		"maintenance": func(name string) error { _, _, _, err := d.Maintenance(t.Context(), name); return err },
		"switch": func(name string) error {
			_, _, _, err := d.SetSwitch(t.Context(), name, "0", true, "r", store.End{}, "me")
			return err
		},
		"add": func(name string) error {
			_, _, err := d.AddWindow(t.Context(), name, store.Window{StartAt: at(1), EndAt: at(100_000)}, "me", "")
			return err
		},
		"delete": func(name string) error { return d.DeleteWindow(t.Context(), name, 1) },
	} {
		before := d.dump(t)
		if !errors.As(act("X-1"), &kind) || !errors.As(act("twin"), &double) || !errors.As(act("BM-9"), &missing) {
			t.Errorf("%s: %v, %v, %v", what, act("X-1"), act("twin"), act("BM-9"))
		}
		if d.dump(t) != before {
			t.Errorf("%s: a refusal changed something", what)
		}
	}
	if _, _, err := d.OfflineLog(t.Context(), "X-1", store.LogSpan{}, 10, nil); err != nil {
		t.Fatal("the log of any server may be read", err)
	}
}

func TestWhatChangedIsFoundByRevision(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 4)
	token := take(t, d.Store, "a").Token
	changed := func(since int64, want ...int64) store.Overview {
		t.Helper()
		overview, err := d.Overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		servers, err := d.ChangedSince(t.Context(), since)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, server := range servers {
			got = append(got, server.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("since %d changed %v, want %v (%+v)", since, got, want, overview)
		}
		return overview
	}
	zero := revision(t, d.Store)
	record(t, d.Store, store.Sweep{Token: token, Own: true, Statuses: []store.Status{fresh(keys[0]), fresh(keys[1]), fresh(keys[2])}})
	one := revision(t, d.Store)
	if one <= zero {
		t.Fatal("the revision stands still", zero, one)
	}
	changed(zero, keys[0], keys[1], keys[2])
	changed(one)
	record(t, d.Store, store.Sweep{Token: token, Own: true}) // nothing to show
	if again := revision(t, d.Store); again != one {
		t.Fatal("an unchanged fleet moved the revision", one, again)
	}
	record(t, d.Store, store.Sweep{Token: token, Own: true, Statuses: []store.Status{silent(keys[1])}})
	two := revision(t, d.Store)
	changed(one, keys[1])
	// Online itself is shown, so that its change is, also where the status is as it was; and a second writer's mark.
	record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: keys[1]}}, SecondWriters: []int64{keys[2]}})
	overview := changed(two, keys[1], keys[2])
	if overview.SecondWriterAt.IsZero() {
		t.Fatalf("%+v", overview)
	}
	marked, err := d.StatusOf(t.Context(), "BM-3")
	if err != nil || !marked.SecondWriterAt.Equal(overview.SecondWriterAt) {
		t.Fatal(marked, err)
	}
	record(t, d.Store, store.Sweep{Token: token, Own: true, Statuses: []store.Status{silent(keys[2])}})
	if marked, err = d.StatusOf(t.Context(), "BM-3"); err != nil || !marked.SecondWriterAt.Equal(overview.SecondWriterAt) {
		t.Fatal("the mark must stay", marked, err)
	}
	if again := changed(revision(t, d.Store)); !again.SecondWriterAt.Equal(overview.SecondWriterAt) {
		t.Fatal("the newest mark must stay", again)
	}
	if ours, err := d.StatusOf(t.Context(), "BM-2"); err != nil || !ours.SecondWriterAt.IsZero() {
		t.Fatal("what we changed ourselves is marked", ours, err)
	}
	d.run(t, fmt.Sprintf("UPDATE TblServer SET Type = 'Other' WHERE ServerKey = %d", keys[2]))
	changed(two, keys[1])
}

func TestOverview(t *testing.T) {
	d := open(t)
	empty, err := d.Overview(t.Context())
	if err != nil || empty.Lease != (store.Lease{}) || empty.Paths != (verdict.PerPath[store.Path]{}) || empty.ReadAt.IsZero() {
		t.Fatalf("%+v %v", empty, err)
	}
	lease := take(t, d.Store, "a")
	paths := verdict.PerPath[store.Path]{
		{State: verdict.PathState{FrozenSince: at(1)}, Blind: verdict.IngestDown, Crowd: verdict.Crowd{Online: 7, Silent: 2}},
		{State: verdict.PathState{Brake: verdict.Brake{Since: at(2), Proofs: 2, JudgedAt: at(3)}}, Braked: true, Held: 5},
	}
	record(t, d.Store, store.Sweep{Token: lease.Token, Paths: paths})
	got, err := d.replica(t).Overview(t.Context())
	if err != nil || got.Paths != paths || got.Lease.Holder != "a" || got.Lease.Token != lease.Token || got.Revision != revision(t, d.Store) {
		t.Fatalf("%+v %v", got, err)
	}
	before := got.Revision
	record(t, d.Store, store.Sweep{Token: lease.Token, Paths: paths})
	if after := revision(t, d.Store); after != before {
		t.Fatal("paths that are as stored were written")
	}
	d.expireLease(t)
	if got, err = d.Overview(t.Context()); err != nil || got.Lease != (store.Lease{}) {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestPruneForgetsServersThatVanished(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 2)
	token := take(t, d.Store, "a").Token
	record(t, d.Store, store.Sweep{Token: token, Statuses: []store.Status{fresh(keys[0]), fresh(keys[1])}})
	for _, name := range []string{"BM-1", "BM-2"} {
		if _, _, _, err := d.SetSwitch(t.Context(), name, "0", true, "r", store.End{}, "me"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.AddWindow(t.Context(), name, store.Window{StartAt: at(1), EndAt: at(100_000)}, "me", ""); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, fmt.Sprintf("DELETE FROM TblServer WHERE ServerKey = %d", keys[0]))
	if err := d.PruneStatuses(t.Context(), token+1); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatal(err)
	}
	count := func(table string) int64 { return d.number(t, "SELECT COUNT(*) FROM "+table) }
	if count("TblAvailabilityStatus") != 2 {
		t.Fatal("pruned without the lease")
	}
	expires := d.dump(t, "TblJobLease")
	if err := d.PruneStatuses(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"TblAvailabilityStatus", "TblMaintenanceSwitch", "TblMaintenanceWindow"} {
		if count(table) != 1 || d.number(t, "SELECT ServerKey FROM "+table) != keys[1] {
			t.Errorf("%s: %s", table, d.dump(t, table))
		}
	}
	if now := d.dump(t, "TblJobLease"); now != expires {
		t.Errorf("the lease was\n%s\nand is\n%s", expires, now)
	}
}

func TestOfflineLogPagesStandStillWhileItGrows(t *testing.T) {
	d := open(t)
	key := d.servers(t, 1)[0]
	insert := func(second int) {
		d.run(t, fmt.Sprintf("INSERT INTO TblServerOfflineLog (ServerKey, CreateDate) VALUES (%d, '%s')", key, at(second).Format("2006-01-02T15:04:05.000Z")))
	}
	for i := range 23 {
		insert(i / 4 * 4) // several of one instant
	}
	var seen []time.Time
	for after, pages := (*store.LogCursor)(nil), 0; after != nil || pages == 0; pages++ {
		entries, next, err := d.OfflineLog(t.Context(), "bm-1", store.LogSpan{}, 5, after)
		if err != nil {
			t.Fatal(err)
		}
		seen, after = append(seen, entries...), next
		insert(1000 + pages)
	}
	if len(seen) != 23 {
		t.Fatalf("%d of 23 entries seen", len(seen))
	}
	for i, entry := range seen {
		if want := at((22 - i) / 4 * 4); !entry.Equal(want) {
			t.Fatalf("entry %d is %s, want %s", i, entry, want)
		}
	}
	if entries, _, err := d.OfflineLog(t.Context(), "BM-1", store.LogSpan{StartAt: at(4), EndAt: at(12)}, 100, nil); err != nil || len(entries) != 8 {
		t.Fatal(entries, err)
	}
}
