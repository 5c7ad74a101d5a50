package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	probed        = 2000
	probeInterval = 15 * time.Second
	roundDuration = "commandcenter_availability_probe_round_duration_seconds"
)

// pingable answers pings of many agents under one address, each with a path of its own; some hang.
type pingable struct {
	base    string
	hanging atomic.Int64 // every so manieth; 0: none
	server  *http.Server
}

func servePings() (*pingable, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &pingable{base: "http://" + listener.Addr().String()}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// ServeHTTP answers GET /<number>/agent/v1/ping.
func (p *pingable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var n int64
	if _, err := fmt.Sscan(number, &n); err != nil {
		http.NotFound(w, r)
		return
	}
	if every := p.hanging.Load(); every > 0 && n%every == 0 {
		<-r.Context().Done()
		return
	}
	body, err := protojson.Marshal(&agentv1.PingResponse{Name: fmt.Sprintf("BM-%06d", n), BootId: "a"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// benchProbes measures rounds of probes: a tenth of the agents hangs, then all do.
func (r *Report) benchProbes(ctx context.Context, s *system) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	agents, err := servePings()
	if err != nil {
		return err
	}
	defer agents.server.Close()
	agents.hanging.Store(10)
	f, err := newFleetOfServers(ctx, s, "sweepInterval="+probeInterval.String())
	if err != nil {
		return err
	}
	defer f.db.Close()
	if err := f.fill(ctx, probed); err != nil {
		return err
	}
	if _, err := f.db.ExecContext(ctx, "UPDATE TblAgent SET LastBusHeartbeatAt = NULL, HttpBaseUrl = ? || '/' || AgentKey", agents.base); err != nil {
		return err
	}
	if err := f.aimed(ctx); err != nil {
		return err
	}
	const unfinished = `commandcenter_availability_probes_total{outcome="unfinished"}`
	tenth, cut, err := f.round(ctx, unfinished)
	if err != nil {
		return err
	}
	if cut > 0 {
		return fmt.Errorf("%v probes of a round with a tenth hanging were not finished", cut)
	}
	r.Add(Figure{Name: "probes: round of 2,000 HTTP agents, a tenth hanging", Value: tenth.Seconds(), Unit: "s", Target: probeInterval.Seconds()})
	// The prober counts: an agent hears only a moment later that a ping was given up, when the next one is on its way already.
	now, err := metrics(ctx, f.admin)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "probes: most in flight at once", Value: now["commandcenter_availability_probes_in_flight_max"], Unit: "probes", Target: 64})
	agents.hanging.Store(1)
	if _, _, err := f.round(ctx, unfinished); err != nil { // the round in which they began to hang
		return err
	}
	all, cut, err := f.round(ctx, unfinished)
	if err != nil {
		return err
	}
	if cut == 0 {
		return errors.New("a round in which all hang was finished")
	}
	r.Add(Figure{Name: "probes: round in which all 2,000 hang, cut at the interval", Value: all.Seconds(), Unit: "s", Target: probeInterval.Seconds() + 0.5})
	r.Add(Figure{Name: "probes: of these, counted as unfinished", Value: cut, Unit: "probes"})
	online, err := f.count(ctx, "SELECT COUNT(*) FROM TblServer WHERE Online = 1")
	r.Add(Figure{Name: "probes: servers still online after rounds in which all hung", Value: float64(online), Unit: "servers", Target: probed, AtLeast: true})
	return err
}

// aimed waits until the first round with all agents is over.
func (f *fleetOfServers) aimed(ctx context.Context) error {
	for {
		now, err := metrics(ctx, f.admin)
		if err != nil {
			return err
		}
		if now[`commandcenter_availability_probes_total{outcome="succeeded"}`] > 0 {
			return nil
		}
		if _, err := next(ctx, f.admin, roundDuration); err != nil {
			return err
		}
	}
}

// round waits for one round, and tells how long it took and how many of its probes were not finished.
func (f *fleetOfServers) round(ctx context.Context, unfinished string) (time.Duration, float64, error) {
	before, err := metrics(ctx, f.admin)
	if err != nil {
		return 0, 0, err
	}
	took, err := next(ctx, f.admin, roundDuration)
	if err != nil {
		return 0, 0, err
	}
	after, err := metrics(ctx, f.admin)
	return took, after[unfinished] - before[unfinished], err
}
