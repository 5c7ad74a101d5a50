package agent

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

// automaton is the state of an agent's failover: failover.Direct or failover.Bus.
type automaton[M any] interface {
	On(e failover.Event, now time.Time, random failover.Random) (M, []failover.Action)
	WakeAt() time.Time
	Status() failover.Status
	List() failover.List
}

// follow keeps the agent with its control servers until the context ends.
func (a *Agent) follow(ctx context.Context) {
	if a.membership.unread != nil {
		a.cfg.Logger.Warn(a.membership.unread.Error())
	}
	f := &follower{
		name: a.cfg.Name, agent: a, cloud: a.cfg.Cloud, membership: a.membership, counters: &a.counters, callTimeout: a.cfg.Failover.CallTimeout,
		pulse: &pulse{agent: a}, links: map[string]*link{}, events: make(chan failover.Event, 2),
	}
	if cfg := a.failover(); a.direct() {
		drive(ctx, f, failover.NewDirect(cfg, a.membership.list, time.Now(), rand.Float64))
	} else {
		drive(ctx, f, failover.NewBus(cfg, a.membership.list, time.Now(), rand.Float64))
	}
}

// drive gives the state machine what happens, and has done what it says.
func drive[M automaton[M]](ctx context.Context, f *follower, m M) {
	timer := time.NewTimer(time.Until(m.WakeAt()))
	defer timer.Stop()
	defer f.end()
	for {
		var event failover.Event = failover.Tick{}
		select {
		case <-ctx.Done():
			return
		case event = <-f.events:
		case <-timer.C:
		}
		var actions []failover.Action
		m, actions = m.On(event, time.Now(), rand.Float64)
		f.failed(event)
		f.note(m.Status())
		for _, action := range actions {
			f.perform(ctx, action, m.List().Etag)
		}
		if at := m.WakeAt(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
	}
}

// follower does what an agent's state machine says.
type follower struct {
	name        string
	agent       *Agent
	cloud       *Cloud
	membership  *membership
	counters    *counters
	callTimeout time.Duration
	pulse       *pulse           // of the call under way
	links       map[string]*link // by endpoint
	// events are how calls ended. There is room for all that may be under way, which is one call and one probe.
	events  chan failover.Event
	calling sync.WaitGroup

	present failover.Server // worked with; zero: none
	last    failover.Server // worked with, now or before
	failing bool            // the last call failed
}

// perform one action. Calls go on in the background.
func (f *follower) perform(ctx context.Context, action failover.Action, etag string) {
	switch do := action.(type) {
	case failover.Register:
		f.call(ctx, do.Server, etag, f.register, true)
	case failover.Heartbeat:
		f.call(ctx, do.Server, do.Etag, f.heartbeat, false)
	case failover.Ask:
		f.call(ctx, do.Server, do.Etag, f.ask, true)
	case failover.Probe:
		f.begin(func() failover.Event {
			return failover.Probed{Server: do.Server, Good: f.probe(ctx, do.Server.Endpoint)}
		})
	case failover.Leave:
		if l := f.links[do.Server.Endpoint]; l != nil {
			delete(f.links, do.Server.Endpoint)
			f.cloud.leave(l)
		}
	case failover.Save:
		if err := f.membership.save(do.List); err != nil {
			f.agent.cfg.Logger.Warn("the agent goes on, and may have to register after a restart", "error", err)
		}
	case failover.Report:
		f.agent.cfg.Logger.Error("the control plane refuses this agent, which needs somebody to see to it; the agent asks again now and then",
			"control_server", do.Server.Name, "endpoint", do.Server.Endpoint, "detail", do.Detail)
	}
}

// call a control server, over the connection that the agent keeps to it. A silent agent waits with that.
func (f *follower) call(ctx context.Context, server failover.Server, etag string,
	invoke func(context.Context, *link, string) (failover.Answered, error), enrols bool,
) {
	l, err := f.link(server.Endpoint)
	f.begin(func() failover.Event {
		var answer failover.Answered
		if err == nil {
			f.agent.cfg.Faults.awake(ctx)
			answer, err = invoke(ctx, l, etag)
		}
		if err != nil {
			failed := failureOf(err, enrols)
			failed.Server = server
			return failed
		}
		answer.Server = server
		return answer
	})
}

func (f *follower) begin(call func() failover.Event) {
	f.calling.Go(func() { f.events <- call() })
}

func (f *follower) link(endpoint string) (*link, error) {
	if l := f.links[endpoint]; l != nil {
		return l, nil
	}
	l, err := f.cloud.join(endpoint)
	if err == nil {
		f.links[endpoint] = l
	}
	return l, err
}

// end waits for the calls, which the context has ended, and closes the connections.
func (f *follower) end() {
	f.calling.Wait()
	for _, l := range f.links {
		f.cloud.leave(l)
	}
	f.note(failover.Status{})
}

// failed counts a failure, and tells of the first in a row.
func (f *follower) failed(event failover.Event) {
	switch e := event.(type) {
	case failover.Answered:
		f.failing = false
	case failover.Failed:
		switch e.Why {
		case failover.Busy:
			f.counters.callsBusy.Add(1)
		case failover.Refused:
			f.counters.callsRefused.Add(1)
		default:
			f.counters.callsFailed.Add(1)
		}
		if !f.failing && e.Why != failover.Refused { // refusals are reported
			f.agent.cfg.Logger.Warn("a control server did not answer as hoped; the agent goes on by its list",
				"control_server", e.Server.Name, "endpoint", e.Server.Endpoint, "detail", e.Detail)
		}
		f.failing = true
	}
}

// note whom the agent works with.
func (f *follower) note(s failover.Status) {
	if s.Server == f.present {
		return
	}
	before := f.present
	f.present = s.Server
	f.agent.works.Store(&s.Server.Name)
	if s.Server == (failover.Server{}) {
		return
	}
	f.counters.connects.Add(1)
	switch {
	case before != (failover.Server{}):
		f.counters.returns.Add(1)
	case f.last != (failover.Server{}) && f.last != s.Server:
		f.counters.failovers.Add(1)
	}
	f.last = s.Server
	f.agent.cfg.Logger.Info("the agent works with a control server",
		"control_server", s.Server.Name, "endpoint", s.Server.Endpoint, "primary", s.Primary)
}
