package faults

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		entity, address string
		want            bool
	}{
		{"", "t", true},
		{"t", "T", true},
		{"t", "t/$management", true},
		{"t", "t/$DeadLetterQueue/$management", true},
		{"t", "t/Subscriptions/s", false},
		{"t/Subscriptions/s", "t/subscriptions/S/$DeadLetterQueue", true},
		{"t/Subscriptions/s", "t/Subscriptions/s2", false},
		{"tt", "t", false},
	} {
		if got := Covers(c.entity, c.address); got != c.want {
			t.Errorf("%q covers %q: %v", c.entity, c.address, got)
		}
	}
}

// However many meet it at once, a fault strikes as often as it was told to.
func TestStrikesExactlyAsOften(t *testing.T) {
	var f Faults
	const times = 100
	f.Set(Fault{Name: RejectSends, Entity: "t", Condition: "a:b", Count: times}, "no")
	f.Set(Fault{Name: Throttle, Count: 0}, "not on")
	var struck atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range times {
				if f.Strike(Attaching, "t") != nil || f.Strike(Sending, "other") != nil {
					t.Error("it struck elsewhere")
				}
				if err := f.Strike(Sending, "t"); err != nil && err.Condition == "a:b" && err.Description == "no" {
					struck.Add(1)
				}
			}
		})
	}
	all.Wait()
	if struck.Load() != times || len(f.List()) != 0 {
		t.Errorf("it struck %d times, and %+v is on", struck.Load(), f.List())
	}
}

func TestSetAgainReplaces(t *testing.T) {
	var f Faults
	f.Set(Fault{Name: RefuseAttaches, Entity: "t", Condition: "a:b", Count: Always}, "")
	f.Set(Fault{Name: RefuseAttaches, Entity: "T", Condition: "c:d", Count: Always}, "")
	f.Set(Fault{Name: RefuseAttaches, Entity: "u", Condition: "e:f", Count: Always}, "")
	for address, want := range map[string]amqp.Symbol{"t": "c:d", "u": "e:f"} {
		for range 3 {
			if err := f.Strike(Attaching, address); err == nil || err.Condition != want {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	if ended := f.End(); len(ended) != 2 || f.Strike(Attaching, "t") != nil {
		t.Errorf("ended %+v", ended)
	}
}

// What is held is let go by whatever ends its delay.
func TestHold(t *testing.T) {
	var f Faults
	f.Hold(nil) // nothing is held
	gone := make(chan struct{})
	for _, release := range []func(){
		func() { f.SetDelay(0) },
		func() { f.SetDelay(time.Nanosecond) },
		func() { f.End() },
		func() { close(gone) },
	} {
		f.SetDelay(time.Hour)
		held := make(chan struct{})
		go func() {
			defer close(held)
			f.Hold(gone)
		}()
		release()
		<-held
	}
}
