package enrollment

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// interval is how often the machines in these tests send a heartbeat, in seconds.
const interval = 30

// machine is one of several under one name. Its heartbeats are as the agent makes them: a counter, and its own clock.
type machine struct {
	boot, host string
	sequence   int64 // of its first heartbeat; below 0: it has none
}

func (m machine) beat(round int, observed time.Time) Heartbeat {
	h := beat(m.boot, m.sequence+int64(round), 0)
	if m.sequence < 0 {
		h.Order.Sequence = 0
	}
	h.Order.ObservedAt = observed
	h.Content.Hostname = m.host
	h.Content.ReportedAt = observed.Add(-3 * time.Millisecond)
	return h
}

// rounds has each machine speak once an interval, in the order that turn gives for a round, and reports in which round the conflict is
// marked: -1 if it is not.
func rounds(machines []machine, count int, turn func(round int) []int) (Contact, int) {
	var contact Contact
	for round := range count {
		for place, i := range turn(round) {
			offset := time.Duration(place) * interval * time.Second / time.Duration(len(machines))
			h := machines[i].beat(round, at(round*interval).Add(offset))
			contact, _, _ = contact.Observe(stored(h), h.Order.ObservedAt)
			contact = reread(contact)
			if !contact.ConflictAt.IsZero() {
				return contact, round
			}
		}
	}
	return contact, -1
}

// stored is a heartbeat as CheckHeartbeat makes it.
func stored(h Heartbeat) Heartbeat {
	h.Order.ObservedAt = h.Order.ObservedAt.Truncate(time.Millisecond)
	return h
}

// reread is a contact as the database gives it back.
func reread(c Contact) Contact {
	encoded, err := json.Marshal(c.EarlierBoots)
	if err != nil {
		panic(err)
	}
	c.EarlierBoots = nil
	if err := json.Unmarshal(encoded, &c.EarlierBoots); err != nil {
		panic(err)
	}
	c.Content.ReportedAt = c.Content.ReportedAt.Truncate(time.Millisecond)
	return c
}

func steady(n int) func(int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return func(int) []int { return order }
}

func shuffled(n int, seed uint64) func(int) []int {
	return func(round int) []int { return rand.New(rand.NewPCG(seed, uint64(round))).Perm(n) }
}

func clones(n int, of func(i int) machine) []machine {
	machines := make([]machine, n)
	for i := range machines {
		machines[i] = of(i)
	}
	return machines
}

func TestI13_ClonedMachinesAreAConflictWithinThreeBeatsEach(t *testing.T) {
	kinds := map[string]func(int) machine{
		"each with its own boot":          func(i int) machine { return machine{fmt.Sprintf("boot %d", i), "image", 1} },
		"each with its own, long running": func(i int) machine { return machine{fmt.Sprintf("%x", i*7919), "image", int64(i * 1000)} },
		"own boots without sequences":     func(i int) machine { return machine{fmt.Sprintf("boot %d", i), "image", -1} },
		"no boots, host names":            func(i int) machine { return machine{"", fmt.Sprintf("host-%d", i), 1} },
	}
	for kind, of := range kinds {
		for _, n := range []int{2, 3, 8, 9, 12, 15, 16, 17, 40, 200} {
			if contact, round := rounds(clones(n, of), 3, steady(n)); round < 0 {
				t.Errorf("%d machines, %s, in steady order: %d turns, %+v", n, kind, contact.Turns, contact.EarlierBoots)
			}
			if n < 8 {
				continue // a few in random order may speak twice in a row, and need a beat or two more
			}
			for seed := range uint64(20) {
				if contact, round := rounds(clones(n, of), 3, shuffled(n, seed)); round < 0 {
					t.Errorf("%d machines, %s, in random order %d: %+v", n, kind, seed, contact.EarlierBoots)
				}
			}
		}
	}
}

// A snapshot of memory that was restored twice: one boot id, and often one host name.
func TestI13_OneBootRestoredTwiceIsAConflictWithinThreeBeatsEach(t *testing.T) {
	for what, machines := range map[string][]machine{
		"one went on before the other":       {{"a", "image", 1000}, {"a", "image", 501}},
		"the older one is heard first":       {{"a", "image", 501}, {"a", "image", 1000}},
		"one beat apart":                     {{"a", "image", 101}, {"a", "image", 100}},
		"in step":                            {{"a", "image", 100}, {"a", "image", 100}},
		"without a boot":                     {{"", "image", 1000}, {"", "image", 501}},
		"without a boot, in step":            {{"", "image", 100}, {"", "image", 100}},
		"without a boot, of other host name": {{"", "image", -1}, {"", "other", -1}},
		"three without a boot":               {{"", "image", 1000}, {"", "image", 501}, {"", "image", 20}},
	} {
		limit := 3
		if what == "the older one is heard first" {
			limit = 4 // its first beat is behind nothing yet
		}
		if contact, round := rounds(machines, limit, steady(len(machines))); round < 0 {
			t.Errorf("%s: %+v", what, contact)
		}
	}
}

// A few machines in random order are found a little later.
func TestI13_AFewMachinesInAnyOrderAreAConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "machines")
		machines := clones(n, func(i int) machine { return machine{fmt.Sprintf("b%d", i), "image", 1} })
		if _, round := rounds(machines, 30, shuffled(n, rapid.Uint64().Draw(t, "order"))); round < 0 || (n > 5 && round > 3) {
			t.Fatalf("found in round %d", round)
		}
	})
}

// restarts draws the life of one machine: boots one after the other, some only seconds long, all that it sends in order of its broker's clock.
func restarts(t *rapid.T, kind int) []Heartbeat {
	var sent []Heartbeat
	second := 0
	for boot := range rapid.IntRange(1, 25).Draw(t, "boots") {
		second += rapid.IntRange(1, 40).Draw(t, "down")
		m := machine{fmt.Sprint("boot", boot), "host", 1}
		if kind == 1 {
			m = machine{"", "host", 1}
		}
		beats := rapid.IntRange(1, 12).Draw(t, "beats")
		for i := range beats {
			sent = append(sent, m.beat(i, at(second)))
			second += interval
		}
	}
	return sent
}

// Redelivery, reordering and duplicates of the bus make no conflict, however often a machine restarts.
func TestI6_OneMachineIsNeverAConflictHoweverItIsDelivered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := restarts(t, 0)
		delivered := slices.Clone(sent)
		for range rapid.IntRange(0, 20).Draw(t, "redeliveries") {
			delivered = append(delivered, sent[rapid.IntRange(0, len(sent)-1).Draw(t, "again")])
		}
		// A sender that got no answer sends again: the same heartbeat, observed a little later.
		for range rapid.IntRange(0, 5).Draw(t, "sent twice") {
			twice := sent[rapid.IntRange(0, len(sent)-1).Draw(t, "which")]
			twice.Order.ObservedAt = twice.Order.ObservedAt.Add(time.Second / 2)
			delivered = append(delivered, twice)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		random.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
		contact, _ := observe(Contact{}, delivered...)
		if !contact.ConflictAt.IsZero() {
			t.Fatalf("%+v", contact)
		}
		if contact.Newest.BootID != sent[len(sent)-1].Order.BootID {
			t.Fatalf("the newest boot is %q", contact.Newest.BootID)
		}
	})
}

// A machine that restarts every minute, each boot's last message late, is one machine; so is one without boot ids.
func TestI6_RestartsWithALateMessageEachAreNoConflict(t *testing.T) {
	for _, every := range []int{15, 60, 72 * 60} {
		var contact Contact
		for boot := range 60 {
			old, young := machine{fmt.Sprint("b", boot), "h", 1}, machine{fmt.Sprint("b", boot+1), "h", 1}
			from := at(boot * every)
			for _, h := range []Heartbeat{young.beat(0, from), old.beat(1, from.Add(time.Second)), young.beat(1, from.Add(5*time.Second))} {
				contact, _, _ = contact.Observe(stored(h), h.Order.ObservedAt)
			}
		}
		if !contact.ConflictAt.IsZero() {
			t.Errorf("restarts every %d s: %+v", every, contact)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		contact, _ := observe(Contact{}, restarts(t, 1)...)
		if !contact.ConflictAt.IsZero() {
			t.Fatalf("without boot ids: %+v", contact)
		}
	})
}

// What is remembered of one agent is bounded, however many speak under its name.
func TestWhatIsRememberedOfBootsIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var contact Contact
		second := 0
		for range 300 {
			second += rapid.IntRange(0, 90).Draw(t, "pause")
			m := machine{rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "kind"), rapid.StringMatching(`h[0-9]`).Draw(t, "host"), int64(rapid.IntRange(0, 9).Draw(t, "sequence"))}
			if m.boot == "c" {
				m.boot = rapid.StringMatching(`[0-9]{2}`).Draw(t, "boot")
			}
			contact, _ = observe(contact, m.beat(0, at(second)))
			if len(contact.EarlierBoots) > recentBoots+sampledBoots+rememberedTwins {
				t.Fatalf("%d are remembered", len(contact.EarlierBoots))
			}
		}
	})
}

// Agents may be told to send a heartbeat an hour: two machines of one name are found then too.
func TestI13_TwoMachinesAreFoundAtTheLongestInterval(t *testing.T) {
	for _, every := range []time.Duration{11 * time.Minute, time.Hour} {
		var contact Contact
		for round := range 4 {
			for i, m := range []machine{{"a", "image", 1}, {"b", "image", 1}} {
				h := m.beat(round, at(0).Add(time.Duration(round)*every+time.Duration(i)*every/2))
				contact, _, _ = contact.Observe(stored(h), h.Order.ObservedAt)
				contact = reread(contact)
			}
		}
		if contact.ConflictAt.IsZero() {
			t.Errorf("a heartbeat every %s: %+v", every, contact.EarlierBoots)
		}
	}
}
