package servicebus

import (
	"testing"
	"time"
)

func TestTheBrokersClockIsToldByItsStamps(t *testing.T) {
	began := time.Now()
	own := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	broker := func(seconds float64, wrong time.Duration) time.Time { return own(seconds).Add(wrong).UTC().Round(0) }
	var c Clock
	c.Seen(broker(0, 0), own(0))
	if _, known := c.Age(broker(0, 0), own(0)); known {
		t.Fatal("known before anything of ours came back")
	}
	behind := -time.Minute
	c.Stamped(broker(1.2, behind), own(1), own(1.5))
	expect := func(when string, at float64, wrong, most time.Duration) {
		t.Helper()
		now, within, known := c.Now(own(at))
		if early := broker(at, wrong).Sub(now); !known || early < 0 || early > within || within > most {
			t.Errorf("%s: %s too early, within %s, known %v; most %s", when, early, within, known, most)
		}
	}
	expect("a minute behind", 10, behind, 500*time.Millisecond)
	if age, known := c.Age(broker(4, behind), own(10)); !known || age < 5*time.Second || age > 6*time.Second {
		t.Error("a message of 6 s ago is", age, "old")
	}
	if age, _ := c.Age(broker(11, behind), own(10)); age != 0 {
		t.Error("a message that is not sent yet is", age, "old")
	}
	c.Stamped(broker(20.001, behind), own(20), own(20.002))
	expect("measured again, more closely", 21, behind, 2*time.Millisecond)
	c.Stamped(broker(31, behind), own(30), own(32))
	expect("measured again, less closely", 33, behind, time.Second+500*time.Millisecond)

	c.Seen(broker(40, time.Minute), own(40.2))
	expect("stepped two minutes ahead, as the next message shows", 41, time.Minute, 2*time.Minute)
	c.Stamped(broker(50.1, -time.Hour), own(50), own(50.2))
	expect("stepped an hour back, as the next canary shows", 51, -time.Hour, 200*time.Millisecond)
}
