package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const grace = 10 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// journal notes what happens, in order.
type journal struct {
	mu    sync.Mutex
	notes []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.notes, want) {
		t.Errorf("happened: %v\nwanted:   %v", j.notes, want)
	}
}

// patient is a part that takes a while to stop.
func (j *journal) patient(name string, takes time.Duration, result error) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		j.note("%s stopping", name)
		time.Sleep(takes)
		j.note("%s stopped", name)
		return result
	}}
}

func failing(name string, after time.Duration, err error) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return err
		case <-ctx.Done():
			return nil
		}
	}}
}

func TestPartsStopOneByOneInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- Run(ctx, quiet, grace,
				happened.patient("first", 3*time.Second, nil), happened.patient("second", 9*time.Second, context.Canceled), happened.patient("third", time.Second, nil))
		}()
		synctest.Wait()
		happened.expect(t)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		happened.expect(t, "third stopping", "third stopped", "second stopping", "second stopped", "first stopping", "first stopped")
	})
}

func TestAFailureStopsTheOthersAndIsReturned(t *testing.T) {
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		result error
		want   string
	}{
		"error":           {broken, "middle: broken"},
		"early nil":       {nil, "middle ended by itself"},
		"early cancelled": {context.Canceled, "middle: context canceled"}, // by a context that is not its own
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var happened journal
				err := Run(t.Context(), quiet, grace,
					happened.patient("first", time.Second, nil), failing("middle", time.Minute, row.result), happened.patient("last", time.Second, nil))
				if err == nil || err.Error() != row.want || (row.result != nil && !errors.Is(err, row.result)) {
					t.Errorf("returned %v", err)
				}
				happened.expect(t, "last stopping", "last stopped", "first stopping", "first stopped")
			})
		})
	}
}

func TestTheFirstFailureIsReturnedAndTheOthersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		var log bytes.Buffer
		err := Run(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), grace,
			happened.patient("later", 0, errors.New("cannot close")), failing("early", time.Second, errors.New("broken")))
		if err == nil || err.Error() != "early: broken" {
			t.Errorf("returned %v", err)
		}
		if text := log.String(); !strings.Contains(text, "later: cannot close") || strings.Count(text, "early: broken") != 1 {
			t.Errorf("logged %s", text)
		}
	})
}

func TestAFailureWhileStoppingIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Run(ctx, quiet, grace, happened.patient("only", 0, errors.New("cannot close")))
		if err == nil || err.Error() != "only: cannot close" {
			t.Errorf("returned %v", err)
		}
	})
}

func TestAPartThatDoesNotStopIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		startedAt := time.Now()
		err := Run(ctx, quiet, grace, happened.patient("first", grace/2, nil), happened.patient("stuck", time.Hour, nil))
		if err == nil || !strings.Contains(err.Error(), "stuck did not stop within 10s") {
			t.Errorf("returned %v", err)
		}
		if took := time.Since(startedAt); took != grace+grace/2 { // of the bubble's clock
			t.Errorf("took %s", took)
		}
		happened.expect(t, "stuck stopping", "first stopping", "first stopped")
		time.Sleep(time.Hour) // let it end within the bubble
	})
}

func TestPartsKeepTheContextsValuesButNotItsEnd(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), time.Second)
		defer cancel()
		var value any
		var firstEndedFirst bool
		inner := make(chan struct{})
		err := Run(ctx, quiet, grace,
			Part{Name: "outlives", Run: func(own context.Context) error {
				value = own.Value(key{})
				<-inner // the later part has stopped while this one still ran
				firstEndedFirst = own.Err() != nil
				<-own.Done()
				return nil
			}},
			Part{Name: "needs it", Run: func(own context.Context) error { <-own.Done(); close(inner); synctest.Wait(); return nil }},
		)
		if err != nil || value != "kept" || firstEndedFirst {
			t.Errorf("%v, %v, %t", err, value, firstEndedFirst)
		}
	})
}
