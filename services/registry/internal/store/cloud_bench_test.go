package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
)

// BenchmarkPartitionAfterJoin spreads agents over one control server more than the 50 there are, all of it: read, computed, written. Rows is
// how many agents were written; a list stored per agent would be 51 for each of them.
func BenchmarkPartitionAfterJoin(b *testing.B) {
	for _, agents := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			w := newWorld(b, sqldbtest.SQLite)
			for i := range 50 {
				w.join(fmt.Sprintf("control-%d", i))
			}
			w.enlist(agents)
			w.exec(`UPDATE TblAgent SET IisBindings = hex(randomblob(500))`)
			w.settle()
			w.watchWrites()
			rounds := 0
			var read, computed, written time.Duration
			for b.Loop() {
				b.StopTimer()
				rounds++
				w.join(fmt.Sprintf("joining-%d", rounds))
				w.exec(`DELETE FROM TblTestWritten`)
				b.StartTimer()
				began := time.Now()
				s, err := w.one.Situation(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				readAt := time.Now()
				p, err := s.Directory.Repartition(s.Membership, s.Agents)
				if err != nil {
					b.Fatal(err)
				}
				computedAt := time.Now()
				if _, err := w.one.Commit(b.Context(), s, p); err != nil {
					b.Fatal(err)
				}
				read, computed, written = read+readAt.Sub(began), computed+computedAt.Sub(readAt), written+time.Since(computedAt)
				if rows := w.written(); rows != len(p.Moves) {
					b.Fatalf("%d rows for %d movers", rows, len(p.Moves))
				}
			}
			b.ReportMetric(float64(w.written()), "rows")
			for what, spent := range map[string]time.Duration{"read-ms": read, "compute-ms": computed, "write-ms": written} {
				b.ReportMetric(float64(spent.Microseconds())/1000/float64(rounds), what)
			}
		})
	}
}

// BenchmarkLook is what every replica reads once a second.
func BenchmarkLook(b *testing.B) {
	w := newWorld(b, sqldbtest.SQLite)
	for i := range 50 {
		w.join(fmt.Sprintf("control-%d", i))
	}
	w.enlist(100_000)
	w.settle()
	for b.Loop() {
		if _, err := w.one.Look(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenew is what every control server asks for each 5 s.
func BenchmarkRenew(b *testing.B) {
	w := newWorld(b, sqldbtest.SQLite)
	for i := range 50 {
		w.join(fmt.Sprintf("control-%d", i))
	}
	for b.Loop() {
		w.join("control-7")
	}
}
