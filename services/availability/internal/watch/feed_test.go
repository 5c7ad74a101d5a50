package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestEverythingThenChanges(t *testing.T) {
	bubble(t, newTable(3), func(t *testing.T, f *fixture) {
		f.set(func() { f.overview = "calm" })
		v := f.watch()
		if v.complete != 3 || v.sees(1) != "first" || v.banner() != "calm" || v.told() != 5 {
			t.Fatalf("%+v", v)
		}
		f.change(2, "second")
		f.change(4, "new")
		pass(pollInterval)
		if v.sees(2) != "second" || v.sees(4) != "new" || v.told() != 7 {
			t.Errorf("%v", v.servers)
		}
		f.set(func() { f.overview = "busy" })
		pass(pollInterval)
		if v.banner() != "busy" || v.told() != 8 {
			t.Errorf("%q after %d events", v.banner(), v.told())
		}
		late := f.watch()
		if late.complete != 4 || late.sees(2) != "second" || late.banner() != "busy" {
			t.Errorf("%+v", late)
		}
		pass(time.Hour)
		if v.told() != 8 {
			t.Errorf("%d events though nothing changed", v.told())
		}
		v.cancel()
		late.cancel()
	})
}

// What changes while everything is read, and after the reading passed it, is told afterwards.
func TestNothingIsLostBetweenEverythingAndChanges(t *testing.T) {
	bubble(t, newTable(3), func(t *testing.T, f *fixture) {
		f.between = sync.OnceFunc(func() { f.change(1, "meanwhile") })
		v := f.watch()
		if v.sees(1) != "first" {
			t.Fatal(v.servers)
		}
		pass(2 * pollInterval)
		if v.sees(1) != "meanwhile" {
			t.Error("a change was lost")
		}
		f.set(func() { f.between = sync.OnceFunc(func() { f.change(2, "meanwhile") }) })
		f.change(3, "second")
		pass(3 * pollInterval)
		if v.sees(2) != "meanwhile" || v.sees(3) != "second" {
			t.Error("a change during the reading of changes was lost")
		}
		v.cancel()
	})
}

func TestWhatHasNoRevisionIsToldAsWell(t *testing.T) {
	bubble(t, newTable(3), func(t *testing.T, f *fixture) {
		v := f.watch()
		f.set(func() {
			delete(f.servers, 1)
			f.servers[2] = row{"renamed", f.servers[2].revision}
		})
		pass(rereadInterval + pollInterval)
		if v.sees(1) != "" || v.sees(2) != "renamed" || v.told() != 7 {
			t.Errorf("%v", v.servers)
		}
		v.cancel()
	})
}

func TestNothingIsReadWhileNobodyWatches(t *testing.T) {
	bubble(t, newTable(1), func(t *testing.T, f *fixture) {
		pass(time.Hour)
		if f.reads != 0 {
			t.Fatalf("%d readings before anybody watched", f.reads)
		}
		v := f.watch()
		v.cancel()
		synctest.Wait()
		if err := <-v.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		before := f.reads
		f.change(1, "second")
		pass(time.Hour)
		if f.reads != before {
			t.Errorf("%d readings after the last one left", f.reads-before)
		}
		if again := f.watch(); again.sees(1) != "second" {
			t.Error("what was known an hour ago is told as news")
		} else {
			again.cancel()
		}
	})
}

func TestASlowWatcherIsEndedAndHarmsNobody(t *testing.T) {
	bubble(t, newTable(1), func(t *testing.T, f *fixture) {
		slow, quick := f.watch(), f.watch()
		release := slow.stall()
		for i := range maxBehind + 2 {
			f.change(1, strings.Repeat("x", i+1))
			pass(pollInterval)
			if got := len(quick.sees(1)); got != i+1 {
				t.Fatalf("the quick one saw %d after %d changes", got, i+1)
			}
		}
		told := slow.told()
		release()
		synctest.Wait()
		if err := <-slow.ended; !errors.Is(err, ErrTooSlow) {
			t.Error(err)
		}
		if slow.told() > told+1 {
			t.Errorf("%d events after its end", slow.told()-told)
		}
		if n := testutil.ToFloat64(f.feed.metrics.tooSlow); n != 1 {
			t.Errorf("counted %v", n)
		}
		quick.cancel()
	})
}

// However many servers one sweep changes, a watcher that reads is not too slow.
func TestAMassOfChangesIsNobodysSlowness(t *testing.T) {
	bubble(t, newTable(20_000), func(t *testing.T, f *fixture) {
		v := f.watch()
		release := v.stall()
		for round := range maxBehind / 3 {
			for key := range int64(20_000) {
				f.change(key+1, strings.Repeat("y", round+1))
			}
			pass(pollInterval)
		}
		release()
		synctest.Wait()
		if len(v.sees(20_000)) != maxBehind/3 {
			t.Errorf("behind after %d events", v.told())
		}
		v.cancel()
	})
}

func TestAFailingDatabaseIsToldAndLosesNothing(t *testing.T) {
	bubble(t, newTable(3), func(t *testing.T, f *fixture) {
		v := f.watch()
		f.set(func() { f.failing = errors.New("gone") })
		f.change(1, "meanwhile")
		pass(pollInterval)
		if !strings.Contains(v.banner(), "has not answered since 2000-01-01T00:00:01Z") {
			t.Errorf("told %q", v.banner())
		}
		told := v.told()
		pass(time.Hour)
		if v.told() != told {
			t.Errorf("%d events about one outage", v.told()-told)
		}
		late := f.watch() // gets what was last known, and the banner
		if late.complete != 3 || late.sees(1) != "first" || !strings.Contains(late.banner(), "has not answered") {
			t.Errorf("%+v", late)
		}
		f.set(func() { f.failing = nil })
		pass(pollInterval)
		for _, one := range []*viewer{v, late} {
			if one.sees(1) != "meanwhile" || one.banner() != "" {
				t.Errorf("after the outage: %v, %q", one.servers, one.banner())
			}
		}
		f.set(func() { f.broken = errors.New("half gone") })
		f.change(2, "meanwhile")
		pass(pollInterval)
		if !strings.Contains(v.banner(), "has not answered since 2000-01-01T01:00:03Z") {
			t.Errorf("told %q of the next outage", v.banner())
		}
		f.set(func() { f.broken = nil })
		pass(pollInterval)
		if v.sees(2) != "meanwhile" || v.banner() != "" {
			t.Errorf("after the next outage: %v, %q", v.servers, v.banner())
		}
		v.cancel()
		late.cancel()
	})
}

func TestAWatchThatCannotBeginSaysWhy(t *testing.T) {
	bubble(t, newTable(1), func(t *testing.T, f *fixture) {
		gone := errors.New("gone")
		f.set(func() { f.failing = gone })
		v := f.watch()
		if err := <-v.ended; !errors.Is(err, gone) || v.told() != 0 {
			t.Errorf("%v after %d events", err, v.told())
		}
		f.set(func() { f.failing = nil })
		if again := f.watch(); again.complete != 1 {
			t.Error("no watch begins afterwards")
		} else {
			again.cancel()
		}
		f.set(func() { f.failing = nil; f.hang = make(chan struct{}) })
		pass(time.Minute)
		hung := f.watch()
		pass(readTimeout)
		if err := <-hung.ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestAStopEndsEveryWatchAtOnce(t *testing.T) {
	bubble(t, newTable(9), func(t *testing.T, f *fixture) {
		idle, reading := f.watch(), f.watch()
		release := reading.stall()
		for key := range int64(9) {
			f.change(key+1, "second")
		}
		pass(pollInterval)
		f.set(func() { f.hang = make(chan struct{}) }) // no reading comes back in its own time
		pass(pollInterval)
		began, told := time.Now(), reading.told()
		f.stop()
		synctest.Wait()
		release()
		for _, v := range []*viewer{idle, reading} {
			if err := <-v.ended; !errors.Is(err, ErrStopping) {
				t.Error(err)
			}
		}
		if reading.told() > told+1 {
			t.Errorf("%d more events after the stop", reading.told()-told)
		}
		if late := f.watch(); !errors.Is(<-late.ended, ErrStopping) {
			t.Error("a watch begins on a feed that stops")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s of the bubble's time", took)
		}
	})
}

func TestASendThatFailsEndsTheWatch(t *testing.T) {
	bubble(t, newTable(1), func(t *testing.T, f *fixture) {
		broken := errors.New("broken")
		if err := f.feed.Watch(t.Context(), func(*Event) error { return broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
		pass(pollInterval)
		if n := testutil.ToFloat64(f.feed.metrics.watchers); n != 0 {
			t.Errorf("%v still watch", n)
		}
	})
}

// Whatever happens in whatever order, each watcher that is not ended believes in the end what is so.
func TestWatchersConverge(t *testing.T) {
	lasted := 0
	for seed := range uint64(60) {
		bubble(t, newTable(5), func(t *testing.T, f *fixture) {
			random := rand.New(rand.NewPCG(seed, 0))
			var viewers []*viewer
			releases := map[*viewer]func(){}
			for range 200 {
				key := int64(random.IntN(8) + 1)
				switch random.IntN(10) {
				case 0:
					viewers = append(viewers, f.watch())
				case 1:
					f.set(func() { f.failing = errors.New("gone") })
				case 2:
					f.set(func() { f.failing = nil })
				case 3:
					f.set(func() { delete(f.servers, key) })
				case 4:
					f.set(func() { f.servers[key] = row{"unseen", f.servers[key].revision} })
				case 5:
					if len(viewers) > 0 {
						if v := viewers[random.IntN(len(viewers))]; releases[v] == nil {
							releases[v] = v.stall()
						}
					}
				case 6:
					for v, release := range releases {
						release()
						delete(releases, v)
					}
				default:
					f.change(key, "change "+string(rune('a'+random.IntN(26))))
				}
				pass(time.Duration(random.IntN(2000)) * time.Millisecond)
			}
			for _, release := range releases {
				release()
			}
			f.set(func() { f.failing = nil })
			pass(rereadInterval + 2*pollInterval)
			lasted += f.converged(t, seed, viewers)
		})
	}
	if lasted < 60 {
		t.Errorf("only %d watchers lasted", lasted)
	}
}

func (f *fixture) converged(t *testing.T, seed uint64, viewers []*viewer) (lasted int) {
	t.Helper()
	for _, v := range viewers {
		select {
		case <-v.ended: // too slow, or the database failed at its beginning
			continue
		default:
		}
		lasted++
		for key := range int64(9) {
			if v.sees(key) != f.servers[key].detail {
				t.Fatalf("seed %d: server %d is %q and not %q", seed, key, v.sees(key), f.servers[key].detail)
			}
		}
		v.cancel()
	}
	return lasted
}

// What was told is shared with others, and is not changed afterwards.
func TestWhatWasToldStaysAsItIs(t *testing.T) {
	bubble(t, newTable(1), func(t *testing.T, f *fixture) {
		f.set(func() { f.overview = "calm" })
		v := f.watch()
		told := v.overview
		f.set(func() { f.failing = errors.New("gone") })
		pass(pollInterval)
		if len(told.GetBanners()) != 1 || v.overview == told {
			t.Error("an overview that was told already was changed")
		}
		v.cancel()
	})
}
