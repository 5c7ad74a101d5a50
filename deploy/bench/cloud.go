package bench

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/agent/storm"
	"github.com/commandcenter/fleet/services/registry"
)

// benchCloud measures the assignment of 100,000 agents to 50 control servers, and simulates the failure of one.
func (r *Report) benchCloud(context.Context) error {
	const agents, servers = 100_000, 50
	best, err := registry.Rehearse(agents, servers)
	if err != nil {
		return err
	}
	for range 4 {
		again, err := registry.Rehearse(agents, servers)
		if err != nil {
			return err
		}
		best.Fresh, best.Join = min(best.Fresh, again.Fresh), min(best.Join, again.Join)
	}
	const robin = "round robin"
	r.Add(Figure{Name: "cloud: assign 100,000 agents to 50 control servers afresh, in memory", Value: milliseconds(best.Fresh), Unit: "ms", Target: 250})
	r.Add(Figure{Name: "cloud: recompute after one join, in memory", Value: milliseconds(best.Join), Unit: "ms", Target: 100})
	r.Add(Figure{
		Name: "cloud: agents whose primary moves at a join", Value: float64(best.Moved), Unit: "agents", Target: 1960, Baseline: float64(best.MovedRoundRobin), BaselineName: robin,
	})
	r.Add(Figure{Name: "cloud: rows written at a join, the movers only", Value: float64(best.Rows), Unit: "rows", Target: 5000, Baseline: agents * servers, BaselineName: "lists written whole"})
	r.Add(Figure{
		Name: "cloud: worst survivor's load by the mean, after one failure", Value: best.Worst, Unit: "", Target: 1.05, Baseline: best.WorstRoundRobin, BaselineName: robin,
	})
	failing := storm.Scenario{Seed: 1, Agents: agents, Servers: servers, Failing: 1, Watch: time.Minute}
	figures, err := storm.Run(failing)
	if err != nil {
		return err
	}
	failing.Spread = storm.RoundRobin
	inTurn, err := storm.Run(failing)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "cloud: peak connects per second at a survivor while 2,000 agents move (simulated)", Value: float64(figures.PeakConnects), Unit: "1/s", Target: 20,
		Baseline: float64(inTurn.PeakConnects), BaselineName: robin,
	})
	return nil
}
