package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// benchSilence measures how old agents' last heartbeats are when their servers go offline, by the database's clock. Times are a tenth of the
// usual ones.
func (r *Report) benchSilence(ctx context.Context, s *system) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	const agents, silent, interval, maxAge, sweep = 20, 5, 3 * time.Second, 9 * time.Second, 1400 * time.Millisecond
	f, err := newFleetOfServers(ctx, s, "sweepInterval="+sweep.String(), "leaseDuration=3s", "probes.timeout=500ms",
		"heartbeatInterval="+interval.String(), "maxHeartbeatAge="+maxAge.String())
	if err != nil {
		return err
	}
	defer f.db.Close()
	field, err := fleet.Start(ctx, fleet.Config{
		Agents: fleet.Numbered(agents, fleet.Agent{ServiceBus: true}), ConnectionString: s.emulator.ConnectionString(), HeartbeatInterval: interval,
	})
	if err != nil {
		return err
	}
	defer field.Close()
	for _, name := range field.Names() {
		if err := s.enrol(ctx, name); err != nil {
			return err
		}
	}
	if err := f.until(ctx, "SELECT COUNT(*) FROM TblServer WHERE Online = 1", agents); err != nil {
		return err
	}
	for _, name := range field.Names()[:silent] {
		if err := field.Silence(name); err != nil {
			return err
		}
	}
	if err := f.until(ctx, "SELECT COUNT(*) FROM TblServerOfflineLog", silent); err != nil {
		return err
	}
	ages, err := f.agesWhenOffline(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name:  "agent falls silent → Online false: age of its last heartbeat, median of 5 (maximum age 9 s, sweeps 1.4 s)",
		Value: median(ages).Seconds(), Unit: "s", Target: (maxAge + sweep).Seconds(),
	})
	r.Add(Figure{Name: "the same: the youngest, never below the maximum age", Value: slices.Min(ages).Seconds(), Unit: "s", Target: maxAge.Seconds(), AtLeast: true})
	return nil
}

// agesWhenOffline are the ages of last heartbeats when their servers went offline.
func (f *fleetOfServers) agesWhenOffline(ctx context.Context) ([]time.Duration, error) {
	rows, err := f.db.QueryContext(ctx, `SELECT (julianday(l.CreateDate) - julianday(a.LastBusHeartbeatAt)) * 86400.0
		FROM TblServerOfflineLog l JOIN TblAgent a ON a.ServerKey = l.ServerKey`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ages []time.Duration
	for rows.Next() {
		var seconds float64
		if err := rows.Scan(&seconds); err != nil {
			return nil, err
		}
		ages = append(ages, time.Duration(seconds*float64(time.Second)))
	}
	return ages, rows.Err()
}

// enrol accepts an agent as soon as it was heard, and creates its server.
func (s *system) enrol(ctx context.Context, name string) error {
	for {
		known, err := s.agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
		if err == nil {
			_, err = s.agents.AcceptAgent(ctx, &registryv1.AcceptAgentRequest{
				Name: name, Etag: known.GetAgent().GetEtag(), Actor: "bench", CreateServer: &registryv1.NewServer{Url: "https://bm.example.test"},
			})
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not heard: %w", name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// until waits until a count is reached.
func (f *fleetOfServers) until(ctx context.Context, query string, count int64) error {
	for {
		got, err := f.count(ctx, query)
		if err != nil || got >= count {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d, expected %d", query, got, count)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
