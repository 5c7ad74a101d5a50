package cloud

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

var scales = []int{1_000, 10_000, 100_000}

// measure assigns over and over, and reports the processor time of one: on a machine with other work the time that passes says less.
func (w *world) measure(b *testing.B) Assignment {
	var out Assignment
	began := cpuTime(b)
	for b.Loop() {
		var err error
		if out, err = w.d.Assign(w.agents); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
	return out
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFresh assigns all agents for the first time, to 50 servers.
func BenchmarkFresh(b *testing.B) {
	for _, n := range scales {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) {
			w := fleetOf(b, n, 50)
			w.measure(b)
		})
	}
}

// BenchmarkJoin assigns after the 51st server joined, and tells how many agents change: their primary, and their row. Round robin moves
// nearly all, and has nothing to compute.
func BenchmarkJoin(b *testing.B) {
	for _, n := range scales {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) {
			w := fleetOf(b, n, 50)
			w.settle(b)
			w.list(b, append(w.d.Servers(), server(51)))
			out := w.measure(b)
			b.ReportMetric(float64(out.PrimariesMoved), "primaries-moved")
			b.ReportMetric(float64(len(out.Moves)), "rows")
			b.ReportMetric(float64(firstsMoved(roundRobin(n, 50), roundRobin(n, 51))), "round-robin-moved")
		})
	}
}

// BenchmarkLeave assigns after one of 50 servers was evicted.
func BenchmarkLeave(b *testing.B) {
	for _, n := range scales {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) {
			w := fleetOf(b, n, 50)
			w.settle(b)
			before := w.lists()
			w.list(b, slices.Delete(w.d.Servers(), 24, 25))
			out := w.measure(b)
			b.ReportMetric(float64(out.PrimariesMoved), "primaries-moved")
			b.ReportMetric(float64(len(out.Moves)), "rows")
			b.ReportMetric(worstAfterFailure(before, 50), "worst/mean")
			b.ReportMetric(worstAfterFailure(roundRobin(n, 50), 50), "round-robin-worst/mean")
		})
	}
}

// BenchmarkMixed assigns afresh with weights, groups and standby servers, after a join in a group.
func BenchmarkMixed(b *testing.B) {
	for _, n := range scales {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) {
			w := fleetOf(b, n, 50)
			servers := w.d.Servers()
			for i := range servers {
				servers[i].Weight, servers[i].Standby, servers[i].Group = 1+i%4, i%10 == 9, int64(i%5)
			}
			for i := range w.agents {
				w.agents[i].Group = int64(i % 7)
			}
			w.list(b, servers)
			w.settle(b)
			joining := server(51)
			joining.Group = 3
			w.list(b, append(servers, joining))
			w.measure(b)
		})
	}
}

// BenchmarkUnchanged is a partition that finds nothing to do.
func BenchmarkUnchanged(b *testing.B) {
	w := fleetOf(b, 100_000, 50)
	w.settle(b)
	w.measure(b)
}

func BenchmarkList(b *testing.B) {
	w := fleetOf(b, 1, 50)
	w.settle(b)
	for b.Loop() {
		w.d.List(w.agents[0])
	}
}
