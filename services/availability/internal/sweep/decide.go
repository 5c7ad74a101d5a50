package sweep

import (
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/probe"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// facts is everything one sweep goes by.
type facts struct {
	fleet       store.Fleet
	agents      *agents          // nil: the registry did not answer
	maintenance map[int64]string // in words, of those that are in maintenance
	probes      probe.History
}

// now is the registry's clock where it answered, since heartbeats and evidence are of that; else the database's own.
func (f facts) now() time.Time {
	if f.agents != nil {
		return f.agents.readAt
	}
	return f.fleet.ReadAt
}

// input puts the facts as the verdict takes them.
func (f facts) input(limits verdict.Limits) verdict.Input {
	in := verdict.Input{
		Now: f.now(), Limits: limits, RegistryAnswered: f.agents != nil, Servers: make([]verdict.Server, len(f.fleet.Servers)),
	}
	for path, stored := range f.fleet.Paths {
		in.State[path] = stored.State
	}
	if f.agents != nil {
		in.Evidence = f.agents.evidence
	}
	for i := range f.fleet.Servers {
		one := &f.fleet.Servers[i]
		in.Servers[i] = verdict.Server{
			Key: one.Key, BenefitManager: true, Online: one.Online, Maintenance: f.maintenance[one.Key] != "", Agent: f.agent(one), Before: one.Status,
		}
	}
	return in
}

func (f facts) agent(server *store.Server) verdict.Agent {
	if f.agents == nil {
		return verdict.Agent{}
	}
	found := f.agents.of(server)
	if target, probed := found.target(server.Key); probed {
		found.Probes = f.probes.Of(target)
	}
	return found.Agent
}

// target is where a server's agent is probed; false for one that is heard, or that nobody accepted.
func (a agent) target(server int64) (probe.Target, bool) {
	probed := a.Registration == verdict.Accepted && a.BaseURL != "" && a.HeardAt == verdict.PerPath[time.Time]{}
	return probe.Target{ServerKey: server, Agent: a.name, BaseURL: a.BaseURL, Verified: a.verified}, probed
}

// targets are all that are probed.
func (f facts) targets() []probe.Target {
	if f.agents == nil {
		return nil
	}
	var all []probe.Target
	for i := range f.fleet.Servers {
		server := &f.fleet.Servers[i]
		if target, probed := f.agents.of(server).target(server.Key); probed {
			all = append(all, target)
		}
	}
	return all
}

// writes is what is to be stored of the outcomes: what differs from what is stored. While the registry does not answer, nothing is
// known of any server; the paths say so, and a status is written only where maintenance changed it.
func (f facts) writes(out verdict.Outcomes, secondWriters map[int64]bool) store.Sweep {
	sweep := store.Sweep{Changes: out.Changes, Paths: f.paths(out)}
	byKey := make(map[int64]*store.Server, len(f.fleet.Servers))
	for i := range f.fleet.Servers {
		byKey[f.fleet.Servers[i].Key] = &f.fleet.Servers[i]
	}
	for _, status := range out.Statuses {
		stored := byKey[status.Key]
		if secondWriters[status.Key] {
			sweep.SecondWriters = append(sweep.SecondWriters, status.Key)
		}
		words := f.maintenance[status.Key]
		if f.agents == nil && status.Maintenance == stored.Status.Maintenance && status.Online == stored.Online && strings.HasPrefix(stored.Detail, words) {
			continue
		}
		if text := detail(status, words); !status.Same(stored.Status) || outdated(stored, status, words, text) {
			sweep.Statuses = append(sweep.Statuses, store.Status{Status: status, Detail: text})
		}
	}
	return sweep
}

// outdated reports whether what is shown beside a status that is the same has changed: maintenance got another end or reason, an agent that is silent
// was heard a little later than was known, or the words are those of a release before. How the newest probe failed changes from round to round,
// and is left as it was.
func outdated(stored *store.Server, status verdict.Status, maintenance, text string) bool {
	switch status.Verdict.Reason {
	case verdict.HeartbeatSilent:
		if !status.Verdict.HeardAt.Equal(stored.Status.Verdict.HeardAt) {
			return true
		}
	case verdict.ProbeFailed, verdict.ProbeUndecided:
		return !strings.HasPrefix(stored.Detail, maintenance)
	}
	return stored.Detail != store.Shortened(text)
}

// paths keep who gave an order and when, also of one that ended: so the store knows which it was.
func (f facts) paths(out verdict.Outcomes) verdict.PerPath[store.Path] {
	next := f.fleet.Paths
	for path := range next {
		stored, status := &next[path], out.Paths[path]
		stored.State, stored.Blind, stored.Braked, stored.Crowd, stored.Held = out.State[path], status.Blind, status.Braked, status.Crowd, 0
		stored.StartingUntil = status.StartingUntil
		if f.agents != nil {
			stored.Broker = f.agents.evidence[path].Broker.Shown(stored.Broker)
		}
	}
	for _, held := range out.Held {
		next[held.HeldPath].Held++
	}
	return next
}

// idle tells whether there is nothing to write.
func idle(stored verdict.PerPath[store.Path], sweep store.Sweep) bool {
	return sweep.Paths == stored && len(sweep.Changes)+len(sweep.Statuses)+len(sweep.SecondWriters) == 0
}
