// Package probe asks agents that are not heard, only probed, whether they are there, in rounds of one HTTP ping each.
//
//	targets ──Prober.Round──► Round ──Rounds.Add──► History ──Of──► verdict.Agent.Probes
//
// A probe that did not finish shows nothing, nor does one that failed for a reason of ours: neither is a failure of the agent (I-11).
package probe

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

const (
	defaultTimeout  = 2 * time.Second
	defaultParallel = 64
)

// Target is one agent to probe.
type Target struct {
	ServerKey      int64
	Agent, BaseURL string
	Verified       bool // its base URL: only then it gets our credential
}

// Subject is whom a probe is about. Another agent of the server, or another base URL, is another subject: it inherits nothing. That a
// URL was verified meanwhile makes no difference.
type Subject struct {
	ServerKey      int64
	Agent, BaseURL string // the agent folded (I-13)
}

// Subject tells whom a probe of the target is about.
func (t Target) Subject() Subject {
	return Subject{ServerKey: t.ServerKey, Agent: spelling.Fold(t.Agent), BaseURL: t.BaseURL}
}

// Prober pings agents. Clients and metrics are required.
type Prober struct {
	// Client is for verified base URLs; it may present a client certificate.
	Client *http.Client
	// Anonymous is for base URLs that are not verified; it presents nothing.
	Anonymous *http.Client
	// Token is what agents expect; it goes to verified URLs only. Empty: none.
	Token config.Secret
	// Timeout bounds one ping; zero: 2 s. The clients should give up connecting as early: they go on after a ping that timed out.
	Timeout time.Duration
	// Parallel is how many pings are in flight at most; zero: 64.
	Parallel int
	Metrics  *Metrics
}

// probe pings one agent.
func (p *Prober) probe(ctx context.Context, t Target) verdict.Probe {
	p.Metrics.InFlight.Inc()
	defer p.Metrics.InFlight.Dec()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, defaultTimeout))
	defer cancel()
	client, token := p.Anonymous, config.Secret("")
	if t.Verified {
		client, token = p.Client, p.Token
	}
	return judge(agenthttp.Ping(ctx, client, token, t.Agent, t.BaseURL))
}

// judge gives the outcome of a ping. One that was cut is inconclusive.
func judge(pong agenthttp.Pong) verdict.Probe {
	switch {
	case pong.Succeeded:
		return verdict.Probe{Outcome: verdict.Succeeded}
	case pong.Inconclusive:
		return verdict.Probe{Outcome: verdict.Unfinished, Error: pong.Detail}
	}
	return verdict.Probe{Outcome: verdict.Failed, Error: pong.Detail}
}
