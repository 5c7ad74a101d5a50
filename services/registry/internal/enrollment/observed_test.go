package enrollment

import (
	"testing"
	"time"
)

func TestAHeartbeatIsPlacedByOneClock(t *testing.T) {
	now := at(1000)
	known := func(age time.Duration) Age { return Age{Of: age, Known: true} }
	for _, c := range []struct {
		what     string
		path     Path
		observed int // seconds, by the broker's or the control server's clock
		age      Age
		held     time.Duration
		want     time.Time
	}{
		{"a control server 60 s behind", Direct, 940, known(time.Second), 0, at(999)},
		{"a control server an hour ahead", Direct, 4600, known(time.Second), 0, at(999)},
		{"the registry held it", Direct, 1000, known(time.Second), 4 * time.Second, at(995)},
		{"an age below zero is none", Direct, 1000, known(-time.Hour), 0, at(1000)},
		{"a broker that agrees keeps its instant", Bus, 997, known(time.Second), 0, at(997)},
		{"a broker 60 s behind", Bus, 937, known(3 * time.Second), 0, at(997)},
		{"a broker 60 s ahead", Bus, 1057, known(3 * time.Second), 0, at(997)},
		{"the broker's clock is not known yet", Bus, 937, Age{}, time.Second, at(937)},
	} {
		h := beat("a", 1, c.observed)
		h.Path, h.Age = c.path, c.age
		if got := h.Placed(now, c.held).Order.ObservedAt; !got.Equal(c.want) {
			t.Errorf("%s: placed at %s, want %s", c.what, got, c.want)
		}
	}
}

// A message that comes again has grown older by as much as passed: no agent lives longer by it.
func TestI6_AMessageThatComesAgainIsAsOldAsItIs(t *testing.T) {
	h := beat("a", 1, 940) // of a broker 60 s behind
	h.Age = Age{Of: 0, Known: true}
	contact, _, _ := Contact{}.Observe(h.Placed(at(1000), 0), at(1000))
	h.Age.Of = 70 * time.Second
	again, changes, result := contact.Observe(h.Placed(at(1070), 0), at(1070))
	if result != Duplicate && result != Stale || changes.Any() || !again.LastBusAt.Equal(at(1000)) {
		t.Errorf("%v %+v: heard at %s", result, changes, again.LastBusAt)
	}
}

// Nothing that a clock left in the future, which was stepped back since, is older than what comes now; nor does it count as a turn of now.
func TestI6_InstantsFromTheFutureProveNothing(t *testing.T) {
	ahead := at(4600)
	contact := Contact{
		LastDirectAt: ahead, Newest: Order{BootID: "b", Sequence: 9, ObservedAt: ahead}, BindingsOrder: Order{BootID: "b", Sequence: 9, ObservedAt: ahead},
		EarlierBoots: []Boot{{ID: "a", Sequence: 5, ObservedAt: ahead, SupersededAt: ahead, TurnedAt: ahead, Turns: 1}},
	}
	h := beat("c", 1, 0)
	h.Path, h.Age = Direct, Age{Known: true}
	now := at(1000)
	next, _, result := contact.Observe(h.Placed(now, 0), now)
	if result != Updated || next.Newest.BootID != "c" || !next.LastDirectAt.Equal(now) {
		t.Errorf("%v: %+v", result, next)
	}
	for _, boot := range next.EarlierBoots {
		for _, instant := range []time.Time{boot.ObservedAt, boot.SupersededAt, boot.TurnedAt} {
			if instant.After(now) {
				t.Errorf("in the future of %s: %+v", now, boot)
			}
		}
	}
	if contact.EarlierBoots[0].ObservedAt != ahead {
		t.Error("what was given is changed")
	}
}
