package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/commandcenter/fleet/agent/storm"
)

// rehearse simulates control servers that fail, with agents' own decisions in virtual time, and prints what that does to the others.
func rehearse(args []string, out io.Writer) error {
	scenario := storm.Scenario{}
	flags := flag.NewFlagSet("agent-sim storm", flag.ContinueOnError)
	flags.IntVar(&scenario.Agents, "agents", 5000, "how many direct agents")
	flags.IntVar(&scenario.Servers, "servers", 3, "how many control servers")
	flags.IntVar(&scenario.Failing, "failing", 1, "how many of them fail at once")
	flags.DurationVar(&scenario.Outage, "outage", 0, "how long they are away; 0: for good")
	flags.IntVar(&scenario.AdmitPerSecond, "admit", 200, "connects per second that a control server takes; 0: any number")
	flags.DurationVar(&scenario.HeartbeatInterval, "heartbeat", 30*time.Second, "interval between heartbeats")
	flags.DurationVar(&scenario.Watch, "watch", 2*time.Minute, "how long it is watched, in the simulation's time")
	flags.Uint64Var(&scenario.Seed, "seed", 1, "seed of all chance; the same gives the same figures")
	roundRobin := flags.Bool("round-robin", false, "lists as plain round robin has them, to compare with")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *roundRobin {
		scenario.Spread = storm.RoundRobin
	}
	f, err := storm.Run(scenario)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d agents worked with what failed; all back after %.1f s, %d lost; longest silence of one agent %.1f s\n",
		f.Moved, f.AllBack.Seconds(), f.Lost, f.LongestSilence.Seconds())
	fmt.Fprintf(out, "the most within a second at one survivor: %d connects, %d attempts to connect, %d calls\n", f.PeakConnects, f.PeakAttempts, f.PeakCalls)
	return nil
}
