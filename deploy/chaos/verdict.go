package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// latenessAllowed is what two processes of one machine may need to agree what came first.
const latenessAllowed = 250 * time.Millisecond

// verdict prints what was counted and whether it is as promised.
type verdict struct {
	out            io.Writer
	passed, failed int
}

func (v *verdict) check(ok bool, format string, args ...any) {
	word := "passed"
	if ok {
		v.passed++
	} else {
		v.failed++
		word = "FAILED"
	}
	_, _ = fmt.Fprintf(v.out, "  %s  %s\n", word, fmt.Sprintf(format, args...))
}

func (v *verdict) note(format string, args ...any) {
	_, _ = fmt.Fprintf(v.out, "          %s\n", fmt.Sprintf(format, args...))
}

// heartbeats compares every row with the newest heartbeat, and the dead-letter queue with the poison.
func (v *verdict) heartbeats(ctx context.Context, w *world, h *heartbeats) error {
	v.note("heartbeats sent: %d, of %d agents and of %d that sent one only; %d of them poison", h.sent, len(h.newest), h.once, len(h.poison))
	missing, behind, other, err := compareRows(ctx, w, h.newest)
	if err != nil {
		return err
	}
	unseen, err := countUnseen(ctx, w, h.once)
	if err != nil {
		return err
	}
	v.check(missing+behind+unseen == 0, "heartbeats lost: %d agents have no row, %d an older one", missing+unseen, behind)
	v.check(other == 0, "rows that differ from the newest heartbeat: %d more", other)
	dead, err := deadLetters(ctx, w)
	v.poison(dead, h.poison)
	return err
}

func (v *verdict) poison(dead, poison map[string]bool) {
	foreign := 0
	for id := range dead {
		if !poison[id] {
			foreign++
		}
	}
	v.check(len(dead)-foreign == len(poison), "poison in the dead-letter queue: %d of %d", len(dead)-foreign, len(poison))
	v.check(foreign == 0, "anything else there: %d", foreign)
}

func compareRows(ctx context.Context, w *world, newest []beat) (missing, behind, other int, err error) {
	for i, want := range newest {
		got, err := w.read.GetAgent(ctx, &registryv1.GetAgentRequest{Name: beatingAgent(i)})
		switch {
		case status.Code(err) == codes.NotFound:
			missing++
		case err != nil:
			return 0, 0, 0, err
		case got.GetAgent().GetBootId() != bootID(i, want.boot):
			other++
		case got.GetAgent().GetSequence() < want.sequence:
			behind++
		case got.GetAgent().GetSequence() > want.sequence:
			other++
		}
	}
	return missing, behind, other, nil
}

// countUnseen counts the agents whose only heartbeat left no row.
func countUnseen(ctx context.Context, w *world, once int) (unseen int, err error) {
	for i := range once {
		_, err := w.read.GetAgent(ctx, &registryv1.GetAgentRequest{Name: newcomer(i)})
		if status.Code(err) == codes.NotFound {
			unseen++
		} else if err != nil {
			return 0, err
		}
	}
	return unseen, nil
}

// deadLetters takes everything from the dead-letter queue, by message id.
func deadLetters(ctx context.Context, w *world) (map[string]bool, error) {
	client, err := azservicebus.NewClientFromConnectionString(w.emulator.ConnectionString(), nil)
	if err != nil {
		return nil, err
	}
	defer client.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the run is over
	receiver, err := client.NewReceiverForSubscription(stateTopic, stateSubscription,
		&azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter, ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for {
		counts, err := w.emulator.Counts(stateTopic, stateSubscription)
		if err != nil || counts.DeadLetter == 0 {
			return found, err
		}
		messages, err := receiver.ReceiveMessages(ctx, 500, nil)
		if err != nil {
			return nil, err
		}
		for _, one := range messages {
			found[one.MessageID] = true
		}
	}
}

// tally is what was said of the jobs, held against what the machines did.
type tally struct {
	done, unknown, not          int
	twice, late, untrue, denied int
	reasons                     map[string]int // of those where nothing was done
	open                        []*job         // those that are unknown
}

func count(jobs []*job, begun map[string][]time.Time) tally {
	t := tally{reasons: map[string]int{}}
	for _, one := range jobs {
		times := begun[one.name]
		if len(times) > 1 {
			t.twice++
		}
		if len(times) > 0 && times[0].After(one.latest().Add(latenessAllowed)) {
			t.late++
		}
		switch {
		case one.said(saidDone):
			t.done++
			if len(times) == 0 {
				t.untrue++
			}
		case one.said(saidUnknown):
			t.unknown++
			t.open = append(t.open, one)
		default:
			t.not++
			t.reasons[one.reason]++
			if len(times) > 0 {
				t.denied++
			}
		}
	}
	return t
}

// commands compares what was said with what the machines did.
func (v *verdict) commands(ctx context.Context, w *world, c *commands) error {
	begun, err := readDone(w.done())
	if err != nil {
		return err
	}
	t := count(c.jobs, begun)
	v.note("commands: %d; answered done %d, unknown %d, nothing done %d: %v", len(c.jobs), t.done, t.unknown, t.not, t.reasons)
	v.tally(t)
	v.check(t.done > len(c.jobs)/2, "most were done: %d of %d", t.done, len(c.jobs))
	return v.reconcile(ctx, c, t.open, begun)
}

func (v *verdict) tally(t tally) {
	v.check(t.twice == 0, "executed more than once: %d", t.twice)
	v.check(t.late == 0, "begun after their budget: %d", t.late)
	v.check(t.untrue == 0, "answered done but not executed: %d", t.untrue)
	v.check(t.denied == 0, "answered as not done but executed: %d", t.denied)
}

// reconcile asks the agents what became of the unknown ones, and holds that against what was done.
func (v *verdict) reconcile(ctx context.Context, c *commands, open []*job, begun map[string][]time.Time) error {
	var mu sync.Mutex
	var wrong []string
	states := map[string]int{}
	var problems error
	work := make(chan *job)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for one := range work {
				found, err := c.lookUp(ctx, one)
				mu.Lock()
				problems = errors.Join(problems, err)
				state := strings.TrimPrefix(found.State, "COMMAND_STATE_")
				states[state]++
				executed := len(begun[one.name]) > 0
				if state == "NEVER_RECEIVED" && executed || state == "FINISHED" && !executed {
					wrong = append(wrong, one.name+" is "+state)
				}
				mu.Unlock()
			}
		})
	}
	for _, one := range open {
		work <- one
	}
	close(work)
	group.Wait()
	v.note("unknown outcomes, as their agents tell: %v", states)
	v.check(problems == nil, "all unknown outcomes reconciled: %d, %v", len(open), problems)
	v.check(len(wrong) == 0, "told wrongly by a journal: %d, such as %v", len(wrong), wrong[:min(3, len(wrong))])
	return nil
}
