package enrollment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

// life draws what one agent sends over several boots, one after the other as on a real machine. Each heartbeat may come over
// both paths, the second a little later, and may hold bindings.
func life(t *rapid.T) []Heartbeat {
	var sent []Heartbeat
	withBoots := rapid.Bool().Draw(t, "boots given")
	withSequence := rapid.Bool().Draw(t, "sequences given")
	second := 0
	for boot := range rapid.IntRange(1, 4).Draw(t, "boots") {
		for i := range rapid.IntRange(1, 4).Draw(t, "beats") {
			second += rapid.IntRange(3, 40).Draw(t, "interval")
			b := beat("", 0, second)
			if withBoots {
				// Ids in no order: how they sort must not matter.
				b.Order.BootID = []string{"m", "c", "x", "a"}[boot]
				if withSequence {
					b.Order.Sequence = int64(i) + 1
				}
			}
			if rapid.Bool().Draw(t, "bindings") {
				b.Bindings, b.Content.BindingsCount = fmt.Appendf(nil, "[%d]", second), second
			}
			sent = append(sent, b)
			if rapid.IntRange(0, 3).Draw(t, "both paths") == 0 {
				second++
				b.Path, b.Order.ObservedAt = Direct, at(second)
				sent = append(sent, b)
			}
		}
	}
	return sent
}

// visible is what of a contact can be seen or decides; which earlier boots are remembered may depend on who was heard of.
func visible(c Contact) string {
	return fmt.Sprint(c.LastBusAt, c.LastDirectAt, c.Newest.BootID, c.Newest.Sequence, c.Newest.ObservedAt, c.Content, c.ConflictAt, string(c.Bindings),
		c.BindingsOrder.BootID, c.BindingsOrder.Sequence)
}

func TestI6_AnyOrderAndRepetitionEndsInTheSameRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := life(t)
		want, _ := observe(Contact{}, sent...)
		delivered := append([]Heartbeat(nil), sent...)
		for range rapid.IntRange(0, 6).Draw(t, "redeliveries") {
			delivered = append(delivered, sent[rapid.IntRange(0, len(sent)-1).Draw(t, "again")])
		}
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
		got, _ := observe(Contact{}, delivered...)
		if visible(got) != visible(want) {
			t.Fatalf("in order:  %s\nas delivered: %s\n%v", visible(want), visible(got), delivered)
		}
		for _, b := range delivered {
			after, changes, result := got.Observe(b, now)
			if changes.Any() || (result != Stale && result != Duplicate) || visible(after) != visible(got) {
				t.Fatalf("%+v was stored and changes the row again: %v %v", b.Order, result, changes)
			}
		}
	})
}

// The database's clock may be behind what is observed, by another lead at each delivery (a failover): content and bindings do not
// depend on it, and liveness only until the clock has passed what was observed.
func TestI6_AnyOrderEndsInTheSameRowWhateverTheDatabasesClock(t *testing.T) {
	content := func(c Contact) string {
		c.LastBusAt, c.LastDirectAt = at(0), at(0)
		return visible(c)
	}
	rapid.Check(t, func(t *rapid.T) {
		sent := life(t)
		want, _ := observe(Contact{}, sent...)
		delivered := append(append([]Heartbeat(nil), sent...), sent[rapid.IntRange(0, len(sent)-1).Draw(t, "again")])
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
		var got Contact
		latest := at(-1000)
		for _, b := range delivered {
			clock := b.Order.ObservedAt.Add(-time.Duration(rapid.IntRange(-60, 299).Draw(t, "lead")) * time.Second)
			if clock.After(latest) {
				latest = clock
			}
			got, _, _ = got.Observe(b, clock)
			if got.LastBusAt.After(latest) || got.LastDirectAt.After(latest) {
				t.Fatalf("heard in the future of %s: %+v", latest, got)
			}
		}
		if content(got) != content(want) {
			t.Fatalf("in order:  %s\nas delivered: %s\n%v", content(want), content(got), delivered)
		}
		if got, _ = observe(got, delivered...); visible(got) != visible(want) {
			t.Fatalf("delivered again when the clock has passed: %s\nwant: %s", visible(got), visible(want))
		}
	})
}

// Two paths are observed by two clocks. A boot that is heard first by the clock that is behind is new all the same.
func TestI6_ANewBootWinsThoughItsPathsClockIsBehind(t *testing.T) {
	last := beat("a", 9, 12)
	last.Path = Direct
	contact, _ := observe(Contact{}, beat("a", 8, 0), last, beat("b", 1, 11))
	for i := range 6 {
		contact, _ = observe(contact, beat("b", int64(i)+2, 41+30*i))
	}
	if contact.Newest.BootID != "b" || contact.Newest.Sequence != 7 || !contact.ConflictAt.IsZero() {
		t.Fatalf("%+v", contact)
	}
}

func TestI6_ABootWithoutSequencesIsOrderedByObservedTime(t *testing.T) {
	contact, _ := observe(Contact{}, beat("a", 0, 1), beat("a", 0, 3), beat("a", 0, 2))
	if contact.Content.Hostname != "a/0@3" {
		t.Fatalf("%+v", contact)
	}
	for i := range 10 {
		contact, _ = observe(contact, beat("b", 0, 100+i*30), beat("a", 0, 115+i*30))
	}
	if contact.ConflictAt.IsZero() {
		t.Fatal("boots that alternate are two machines, counted or not")
	}
}

func TestI6_BindingsOfABootBetweenTwoOthersAreNotLost(t *testing.T) {
	with := func(b Heartbeat) Heartbeat { b.Bindings = []byte(b.Order.BootID); return b }
	contact, _ := observe(Contact{}, with(beat("a", 1, 1)), beat("c", 1, 3), with(beat("b", 1, 2)))
	if string(contact.Bindings) != "b" || contact.Newest.BootID != "c" {
		t.Fatalf("%q of %+v", contact.Bindings, contact.Newest)
	}
}

func TestI6_AnInstantFinerThanAMillisecondIsNotNewerThanItself(t *testing.T) {
	message := validHeartbeat("a", 1)
	first, invalid := CheckHeartbeat(message, Direct, finerThanStored())
	if invalid != nil {
		t.Fatal(invalid)
	}
	stored, _ := observe(Contact{}, first)
	stored.Newest.ObservedAt = stored.Newest.ObservedAt.Truncate(1e6) // as it is read back
	stored.LastDirectAt = stored.LastDirectAt.Truncate(1e6)
	if _, result := observe(stored, first); result != Duplicate {
		t.Fatalf("delivered again it is %v", result)
	}
}

func validHeartbeat(boot string, sequence int64) *agentv1.Heartbeat {
	return &agentv1.Heartbeat{Name: "BM-1", BootId: boot, Sequence: sequence}
}

func finerThanStored() *timestamppb.Timestamp { return timestamppb.New(at(1).Add(1234567)) }
