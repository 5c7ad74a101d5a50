package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// cpuTime is the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// judged opens a database of so many servers, all online, each with its status, and takes the lease.
func judged(b *testing.B, servers int) (*store.Store, int64) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	s, err := store.Open("sqlite:" + path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if _, _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	_, err = raw.ExecContext(b.Context(), fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO TblServer (Name, Url, Type, Online) SELECT printf('BM-%%06d', i), 'https://' || i, 'BenefitManager', 1 FROM n`, servers))
	if err != nil {
		b.Fatal(err)
	}
	lease, _, err := s.TakeLease(b.Context(), "bench", 24*time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	_, err = s.Record(b.Context(), store.Sweep{Token: lease.Token, Statuses: flipped(servers, true).Statuses})
	if err != nil {
		b.Fatal(err)
	}
	return s, lease.Token
}

// flipped is a sweep that turns so many servers on or off.
func flipped(servers int, online bool) store.Sweep {
	sweep := store.Sweep{Own: true}
	for i := range servers {
		key := int64(i + 1)
		status := silent(key)
		if online {
			status = fresh(key)
		}
		sweep.Changes = append(sweep.Changes, verdict.Change{Key: key, Online: online})
		sweep.Statuses = append(sweep.Statuses, status)
	}
	return sweep
}

// BenchmarkFleet reads everything that one sweep needs.
func BenchmarkFleet(b *testing.B) {
	for _, servers := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			s, _ := judged(b, servers)
			before := cpuTime(b)
			for b.Loop() {
				if fleet, err := s.Fleet(b.Context()); err != nil || len(fleet.Servers) != servers {
					b.Fatal(len(fleet.Servers), err)
				}
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkRecord writes a sweep with so many changes, each with its status, and half of them with a log row. Its cost is that of
// the changes: the fleet may be as large as it likes.
func BenchmarkRecord(b *testing.B) {
	for _, servers := range []int{10_000, 100_000} {
		for _, changes := range []int{0, 1, 1_000, 10_000} {
			b.Run(fmt.Sprintf("servers=%d/changes=%d", servers, changes), func(b *testing.B) {
				s, token := judged(b, servers)
				online := true
				var cpu time.Duration
				for b.Loop() {
					b.StopTimer()
					online = !online
					sweep := flipped(changes, online)
					sweep.Token = token
					before := cpuTime(b)
					b.StartTimer()
					if done, err := s.Record(b.Context(), sweep); err != nil || len(done.Online)+len(done.Offline) != changes {
						b.Fatal(done, err)
					}
					cpu += cpuTime(b) - before
				}
				b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// BenchmarkOverview is polled every second by each replica that is watched.
func BenchmarkOverview(b *testing.B) {
	s, _ := judged(b, 1_000)
	for b.Loop() {
		if _, err := s.Overview(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStatuses reads a page of a list, from its beginning and by keys.
func BenchmarkStatuses(b *testing.B) {
	const servers = 100_000
	s, _ := judged(b, servers)
	everything := store.Filter{Held: -1, Maintenance: -1, Disagrees: -1}
	scattered := everything
	for i := range 1_000 {
		scattered.Keys = append(scattered.Keys, int64(i*7919%servers+1))
	}
	for name, filter := range map[string]store.Filter{"first": everything, "keys": scattered} {
		b.Run(fmt.Sprintf("servers=%d/page=1000/%s", servers, name), func(b *testing.B) {
			for b.Loop() {
				if page, _, err := s.Statuses(b.Context(), filter, 1_000, 0); err != nil || len(page) != 1_000 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}
