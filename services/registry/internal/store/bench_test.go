package store_test

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// cpuTime is the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// round is what n agents send at one moment, in batches.
func round(b *testing.B, agents, batch int, sequence int64, at time.Time) [][]enrollment.Heartbeat {
	var batches [][]enrollment.Heartbeat
	for first := 0; first < agents; first += batch {
		var beats []enrollment.Heartbeat
		for i := first; i < min(first+batch, agents); i++ {
			name, err := enrollment.ParseName(fmt.Sprintf("BM-%06d", i*7919%agents))
			if err != nil {
				b.Fatal(err)
			}
			beats = append(beats, enrollment.Heartbeat{
				Name: name, Path: enrollment.Bus, Order: enrollment.Order{BootID: "3f6c1c1e-7d53-4a55-9a0f-1c7c54c1b2aa", Sequence: sequence, ObservedAt: at},
				Content: enrollment.Content{ReportedName: name.Spelling, Hostname: name.Key + ".example.test", AgentVersion: "2.4.1", ReportedAt: at, Capabilities: []string{"OPERATION_KIND_LIST_SERVICES", "OPERATION_KIND_RESTART_SERVICE"}},
			})
		}
		batches = append(batches, beats)
	}
	return batches
}

// directly makes batches come from machines that call a control server.
func directly(batches [][]enrollment.Heartbeat) [][]enrollment.Heartbeat {
	for _, beats := range batches {
		for i := range beats {
			token := sha256.Sum256([]byte(beats[i].Name.Key))
			beats[i].Path, beats[i].Identity = enrollment.Direct, enrollment.Identity{TokenHash: token[:], Enrols: true}
		}
	}
	return batches
}

// BenchmarkRecordHeartbeats is per heartbeat of a known agent; batch=1 is the baseline of one-row updates.
func BenchmarkRecordHeartbeats(b *testing.B) {
	for _, agents := range []int{1_000, 10_000, 100_000} {
		for _, batch := range []int{1, 1_000} {
			b.Run(fmt.Sprintf("agents=%d/batch=%d", agents, batch), func(b *testing.B) { benchmarkRecording(b, agents, batch, round) })
		}
	}
}

// BenchmarkRecordDirectHeartbeats has the bus beside the direct path, in the same run.
func BenchmarkRecordDirectHeartbeats(b *testing.B) {
	for _, agents := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("agents=%d/path=bus", agents), func(b *testing.B) { benchmarkRecording(b, agents, 1_000, round) })
		b.Run(fmt.Sprintf("agents=%d/path=direct", agents), func(b *testing.B) {
			benchmarkRecording(b, agents, 1_000, func(b *testing.B, agents, batch int, sequence int64, at time.Time) [][]enrollment.Heartbeat {
				return directly(round(b, agents, batch, sequence, at))
			})
		})
	}
}

// benchmarkRecording records rounds of a fleet, after a first one in which all become known.
func benchmarkRecording(b *testing.B, agents, batch int, round func(b *testing.B, agents, batch int, sequence int64, at time.Time) [][]enrollment.Heartbeat) {
	opened, err := store.Open("sqlite:"+filepath.Join(b.TempDir(), "fleet.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer opened.Close()
	if _, _, err := opened.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	at := time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Millisecond)
	run := func(batches [][]enrollment.Heartbeat) int {
		count := 0
		for _, beats := range batches {
			recorded, rejected, err := opened.RecordHeartbeats(b.Context(), beats)
			if err != nil || len(rejected) > 0 || !recorded[0].Result.Taken() {
				b.Fatal(err, rejected)
			}
			count += len(beats)
		}
		return count
	}
	run(round(b, agents, 1000, 1, at))
	count, sequence := 0, int64(1)
	var spent, cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		sequence++
		at = at.Add(30 * time.Second)
		batches := round(b, agents, batch, sequence, at)
		if batch == 1 {
			batches = batches[:500]
		} else if len(batches) > 20 {
			batches = batches[:20]
		}
		cpuBefore, before := cpuTime(b), time.Now()
		b.StartTimer()
		count += run(batches)
		spent, cpu = spent+time.Since(before), cpu+cpuTime(b)-cpuBefore
	}
	b.ReportMetric(float64(count)/spent.Seconds(), "heartbeats/s")
	b.ReportMetric(cpu.Seconds()*1000/float64(count), "cpu-s/1000")
	b.ReportMetric(0, "ns/op")
}

// linkedFleet fills a fresh SQLite file with agents that are all linked.
func linkedFleet(b *testing.B, agents int) *store.Store {
	path := filepath.Join(b.TempDir(), "fleet.db")
	opened, err := store.Open("sqlite:"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = opened.Close() })
	if _, _, err := opened.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, beats := range round(b, agents, 1000, 1, time.Now().UTC().Truncate(time.Millisecond)) {
		if _, rejected, err := opened.RecordHeartbeats(b.Context(), beats); err != nil || len(rejected) > 0 {
			b.Fatal(err, rejected)
		}
	}
	raw, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.ExecContext(b.Context(), `UPDATE TblAgent SET RegistrationState = 2, ServerKey = 1 + (AgentKey * 7919) % (SELECT COUNT(*) FROM TblAgent),
		HttpBaseUrl = 'https://' || Name || '.example.test:8443', HttpVerification = 1, IisBindings = hex(randomblob(500))`); err != nil {
		b.Fatal(err)
	}
	return opened
}

// BenchmarkFleet is one read of everything that a sweep of availability needs.
func BenchmarkFleet(b *testing.B) {
	for _, agents := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			opened := linkedFleet(b, agents)
			cpuBefore, reads := cpuTime(b), 0
			for b.Loop() {
				if fleet, err := opened.Fleet(b.Context()); err != nil || len(fleet.Servers) != agents {
					b.Fatal(len(fleet.Servers), err)
				}
				reads++
			}
			b.ReportMetric((cpuTime(b)-cpuBefore).Seconds()/float64(reads), "cpu-s/read")
		})
	}
}

// BenchmarkAgents reads one page of 100 of the agents, in an order and with a filter that no index has.
func BenchmarkAgents(b *testing.B) {
	for _, agents := range []int{1_000, 10_000, 100_000} {
		s, err := store.Open("sqlite:"+filepath.Join(b.TempDir(), "fleet.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := s.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, batch := range round(b, agents, 1_000, 1, time.Now()) {
			if _, _, err := s.RecordHeartbeats(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		for what, filter := range map[string]store.Filter{
			"name": {Sort: "name"}, "last_heartbeat": {Sort: "last_heartbeat", Descending: true}, "unseen": {Sort: "name", UnseenFor: time.Hour}, "version": {Sort: "name", Version: "2.4.1"},
		} {
			filter.Transport, filter.Linked = -1, -1
			b.Run(fmt.Sprintf("agents=%d/%s", agents, what), func(b *testing.B) {
				for b.Loop() {
					if _, _, _, err := s.Agents(b.Context(), filter, 100, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		_ = s.Close()
	}
}
