package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// clonesOf are the heartbeats of machines that were cloned under one name, round by round in the steady order of their timers.
func clonesOf(t *testing.T, agent string, machines, rounds int) []enrollment.Heartbeat {
	var beats []enrollment.Heartbeat
	for round := range rounds {
		for machine := range machines {
			at := at(round * 30).Add(time.Duration(machine) * 30 * time.Second / time.Duration(machines)).Truncate(time.Millisecond)
			b := beat(t, agent, fmt.Sprintf("boot %d", machine), int64(round)+1, at)
			b.Content.Hostname, b.Content.ReportedAt = "image", at
			beats = append(beats, b)
		}
	}
	return beats
}

// However the heartbeats of cloned machines are put into batches, and in whatever order a batch holds them, they are a conflict.
func TestI13_ClonedMachinesAreAConflictThroughTheStore(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for _, machines := range []int{2, 15, 40, 200} {
			beats := clonesOf(t, "SP-1", machines, 3)
			backwards := slices.Clone(beats)
			slices.Reverse(backwards)
			for what, batches := range map[string][][]enrollment.Heartbeat{
				"in one batch": {beats}, "in one batch, backwards": {backwards}, "in small batches": slices.Collect(slices.Chunk(beats, max(machines/3, 1))),
			} {
				s := open(t, engine)
				for _, batch := range batches {
					record(t, s, batch...)
				}
				if read(t, s, "SP-1").ConflictAt.IsZero() {
					t.Errorf("%d machines, %s, are no conflict", machines, what)
				}
			}
		}
	})
}

// A machine that restarts often is none, and nothing of it grows.
func TestRestartsAreNoConflictThroughTheStore(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		for boot := range 60 {
			for i := range 2 {
				record(t, s, beat(t, "SP-1", fmt.Sprintf("boot %d", boot), int64(i)+1, at(boot*45+i*30)))
			}
		}
		if agent := read(t, s, "SP-1"); !agent.ConflictAt.IsZero() || agent.BootID != "boot 59" {
			t.Fatalf("%+v", agent)
		}
	})
}
