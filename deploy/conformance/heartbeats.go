package conformance

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// heartbeatRules are of the first heartbeat.
func heartbeatRules() []rule {
	return []rule{
		{"1.1", "a heartbeat can be read and keeps the rules of its fields", readableHeartbeat},
		{"1.2", "it has a boot id and a sequence", numberedHeartbeat},
		{"1.3", "its capabilities are names of operations", namedCapabilities},
	}
}

// laterHeartbeatRules are of all the heartbeats that came meanwhile, so they are tried last.
func laterHeartbeatRules() []rule {
	return []rule{
		{"1.4", "within a boot the boot id stays and the sequence rises", risingSequence},
		{"1.5", "heartbeats come at the interval", steadyHeartbeats},
		{"1.6", "IIS bindings are left out where nothing changed", sparingBindings},
	}
}

func readableHeartbeat(_ context.Context, r *run) verdict {
	if r.first.problem != nil {
		return failed("%v", r.first.problem)
	}
	return passed("from %q, version %q, as %s", r.first.GetName(), r.first.GetAgentVersion(), r.first.contentType)
}

func numberedHeartbeat(_ context.Context, r *run) verdict {
	switch {
	case r.first.GetBootId() == "":
		return failed("it has no bootId; without one a restart can't be told from a late message")
	case r.first.GetSequence() < 1:
		return failed("its sequence is %d; count from 1 within a boot", r.first.GetSequence())
	}
	return passed("boot %s, sequence %d", r.first.GetBootId(), r.first.GetSequence())
}

func namedCapabilities(_ context.Context, r *run) verdict {
	if len(r.first.GetCapabilities()) == 0 {
		return failed("it names no capabilities")
	}
	for _, name := range r.first.GetCapabilities() {
		if number, known := agentv1.OperationKind_value[name]; !known || number == 0 {
			return failed("%q is no name of an OperationKind", name)
		}
	}
	return passed("%s", strings.ReplaceAll(strings.Join(r.first.GetCapabilities(), ", "), "OPERATION_KIND_", ""))
}

// boots are the readable heartbeats of the agent, by boot, in the order in which they came.
func (r *run) boots() (order []string, of map[string][]*heard) {
	all, _ := r.bus.heartbeats()
	of = map[string][]*heard{}
	for _, h := range all {
		if h.problem != nil || !sameName(h.GetName(), r.Name) {
			continue
		}
		if of[h.GetBootId()] == nil {
			order = append(order, h.GetBootId())
		}
		of[h.GetBootId()] = append(of[h.GetBootId()], h)
	}
	return order, of
}

// enough waits until one boot was heard three times, since two make one gap only.
func (r *run) enough(ctx context.Context) bool {
	count := map[string]int{}
	seen := map[*heard]bool{}
	_, ok := r.bus.awaitHeartbeat(ctx, 4*r.Interval+r.Patience, func(h *heard) bool {
		if !seen[h] && h.problem == nil {
			seen[h] = true
			count[h.GetBootId()]++
		}
		return count[h.GetBootId()] >= 3
	})
	return ok
}

func risingSequence(ctx context.Context, r *run) verdict {
	if !r.enough(ctx) {
		return failed("fewer than three heartbeats of one boot came; if each has another boot id, that is the fault")
	}
	order, of := r.boots()
	for _, boot := range order {
		last := int64(0)
		for _, h := range of[boot] {
			if h.GetSequence() < last { // the same again is a heartbeat sent twice, which is allowed
				return failed("in boot %s sequence %d came after %d", boot, h.GetSequence(), last)
			}
			last = h.GetSequence()
		}
		if n := len(of[boot]); n >= 3 && last == of[boot][0].GetSequence() {
			return failed("in boot %s %d heartbeats came, all with sequence %d", boot, n, last)
		}
	}
	return passed("%d boots", len(order))
}

// steadyHeartbeats allows a gap of three intervals, from which the control plane takes an agent for silent: what is less may be a machine
// under load, ours or the agent's.
func steadyHeartbeats(ctx context.Context, r *run) verdict {
	if !r.enough(ctx) {
		return failed("fewer than three heartbeats of one boot came")
	}
	order, of := r.boots()
	longest, count, span := time.Duration(0), 0, time.Duration(0)
	for _, boot := range order {
		for i, h := range of[boot][1:] {
			before := of[boot][i].at
			longest, count, span = max(longest, r.gap(before, h.at)), count+1, span+h.at.Sub(before)
		}
	}
	switch mean := span / time.Duration(count); {
	case longest >= 3*r.Interval:
		return failed("%s passed between two heartbeats; the interval is %s", longest.Round(time.Millisecond), r.Interval)
	case mean < r.Interval/3:
		return failed("a heartbeat came every %s; the interval is %s", mean.Round(time.Millisecond), r.Interval)
	default:
		return passed("every %s, at most %s", mean.Round(time.Millisecond), longest.Round(time.Millisecond))
	}
}

// gap is the time from one heartbeat to the next, but for what the check itself held up.
func (r *run) gap(from, to time.Time) time.Duration {
	gap := to.Sub(from)
	for _, hold := range r.holds {
		first, last := hold[0], hold[1]
		if first.Before(from) {
			first = from
		}
		if last.After(to) {
			last = to
		}
		gap -= max(0, last.Sub(first))
	}
	return gap
}

func sparingBindings(ctx context.Context, r *run) verdict {
	if !r.enough(ctx) {
		return failed("fewer than three heartbeats of one boot came")
	}
	order, of := r.boots()
	reported := 0
	for _, boot := range order {
		var last *heard
		for _, h := range of[boot] {
			if h.IisBindings == nil {
				continue
			}
			reported++
			if last != nil && h.GetSequence() > last.GetSequence() && proto.Equal(h.GetIisBindings(), last.GetIisBindings()) && h.at.Sub(last.at) < 5*time.Minute {
				return failed("sequence %d repeats the bindings of sequence %d %s later: send them when they changed and every 10 minutes",
					h.GetSequence(), last.GetSequence(), h.at.Sub(last.at).Round(time.Millisecond))
			}
			last = h
		}
	}
	if reported == 0 {
		return passed("none were reported, which keeps what was known")
	}
	return passed("%d of the heartbeats had them", reported)
}
