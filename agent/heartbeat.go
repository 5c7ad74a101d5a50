package agent

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	maxBindings     = 1000
	maxBindingsSize = 150 << 10 // bytes; a message on the Standard tier has 256 KiB, and JSON is longer than this measure

	bindingsPatience = 2 * time.Second // how long a heartbeat waits for the host's bindings
	heartbeatTries   = 4
)

// heartbeats sends one at once, and then one every interval, until the context ends. The second comes early, at random,
// so that a fleet that was started together does not beat together.
func (a *Agent) heartbeats(ctx context.Context) {
	a.keepBeating(ctx, &pulse{agent: a, send: a.cfg.Bus.sendHeartbeat})
}

func (a *Agent) keepBeating(ctx context.Context, p *pulse) {
	for wait := jittered(a.cfg.Heartbeat.Interval*3/4, 1.0/3); ctx.Err() == nil; wait = jittered(a.cfg.Heartbeat.Interval, 0.1) {
		if a.cfg.Faults.awake(ctx); ctx.Err() != nil {
			return
		}
		p.beat(ctx)
		pause(ctx, wait)
	}
}

// pulse is the state of an agent's heartbeats within one boot.
type pulse struct {
	agent    *Agent
	send     func(context.Context, *agentv1.Heartbeat) error
	sequence int64
	failing  bool
	reading  chan []*agentv1.IisBinding // the read of the bindings under way; nil: none

	sent   *agentv1.IisBindings // the bindings last sent; nil: none yet
	sentAt time.Time
}

// beat makes one heartbeat and sends it. It is tried again, being idempotent, but not when the next is due; though a
// connection is given the time that it takes to be made again.
func (p *pulse) beat(ctx context.Context) {
	a := p.agent
	now := time.Now()
	sending, cancel := context.WithTimeout(ctx, max(a.cfg.Heartbeat.Interval, sendTimeout))
	defer cancel()
	next := p.next(sending, now)
	err := p.send(sending, next)
	if ctx.Err() != nil {
		return // the agent stops
	}
	if err != nil {
		a.counters.heartbeatsFailed.Add(1)
		if !p.failing {
			a.cfg.Logger.Warn("heartbeats do not reach the bus; they are tried on", "error", err)
		}
		p.failing = true
		return
	}
	a.counters.heartbeatsSent.Add(1)
	if p.failing {
		a.cfg.Logger.Info("heartbeats reach the bus again")
	}
	p.failing = false
	p.delivered(next, now)
}

// next is the heartbeat that is due.
func (p *pulse) next(ctx context.Context, now time.Time) *agentv1.Heartbeat {
	bindings := p.bindings(ctx)
	if !bindingsDue(bindings, p.sent, now.Sub(p.sentAt), p.agent.cfg.Heartbeat.BindingsInterval) {
		bindings = nil
	}
	p.sequence++
	return p.agent.heartbeat(p.sequence, now, bindings)
}

// delivered is the heartbeat that was made then: bindings that came with it need not be repeated. Before, they have to, since nobody
// knows whether they arrived.
func (p *pulse) delivered(h *agentv1.Heartbeat, madeAt time.Time) {
	if h.GetIisBindings() != nil {
		p.sent, p.sentAt = h.GetIisBindings(), madeAt
	}
}

// heartbeat makes the message.
func (a *Agent) heartbeat(sequence int64, now time.Time, bindings *agentv1.IisBindings) *agentv1.Heartbeat {
	return &agentv1.Heartbeat{
		Name: a.cfg.Name, Hostname: a.cfg.Hostname, AgentVersion: a.cfg.Version,
		BootId: a.bootID, Sequence: sequence, ReportedAt: timestamppb.New(now), HttpBaseUrl: a.HTTPBaseURL(),
		IisBindings: bindings, Capabilities: capabilities(),
	}
}

// bindingsDue decides whether bindings go with a heartbeat: the first that are known, changed ones, and all after the
// interval.
func bindingsDue(present, sent *agentv1.IisBindings, age, interval time.Duration) bool {
	if present == nil {
		return false
	}
	return sent == nil || age >= interval || !proto.Equal(present, sent)
}

// bindings asks the host, but does not wait long: a host that hangs must not silence its agent. nil: not known now.
func (p *pulse) bindings(ctx context.Context) *agentv1.IisBindings {
	a := p.agent
	if p.reading == nil {
		answer := make(chan []*agentv1.IisBinding, 1)
		p.reading = answer
		go func() {
			defer close(answer)
			ctx, cancel := context.WithTimeout(ctx, bindingsPatience)
			defer cancel()
			found, err := a.cfg.Host.Bindings(ctx)
			if err != nil {
				a.cfg.Logger.Warn("the host does not tell its IIS bindings; the heartbeat goes without them", "error", err)
				return
			}
			answer <- found
		}()
	}
	patience := time.NewTimer(bindingsPatience)
	defer patience.Stop()
	select {
	case found, ok := <-p.reading:
		p.reading = nil
		if !ok {
			return nil
		}
		kept := reportable(found)
		if len(kept) < len(found) {
			a.cfg.Logger.Warn("some IIS bindings are not reported: there are too many, or they are too long",
				"found", len(found), "reported", len(kept))
		}
		return &agentv1.IisBindings{Bindings: kept}
	case <-patience.C:
		a.cfg.Logger.Warn("the host has not told its IIS bindings yet; the heartbeat goes without them")
	case <-ctx.Done():
	}
	return nil
}

// reportable leaves out what would make the whole heartbeat unacceptable: bindings that break a rule of the contract,
// and those beyond what one message takes.
func reportable(found []*agentv1.IisBinding) []*agentv1.IisBinding {
	kept := slices.DeleteFunc(slices.Clone(found), func(b *agentv1.IisBinding) bool { return protovalidate.Validate(b) != nil })
	kept = kept[:min(len(kept), maxBindings)]
	size := 0
	for i, b := range kept {
		if size += proto.Size(b); size > maxBindingsSize {
			return kept[:i]
		}
	}
	return kept
}

// jittered is d, give or take a share of it.
func jittered(d time.Duration, share float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*share*float64(d))
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
