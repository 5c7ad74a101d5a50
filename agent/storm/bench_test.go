package storm

import (
	"testing"
	"time"
)

// BenchmarkFullOutage measures the whole fleet after 10 min without any server.
func BenchmarkFullOutage(b *testing.B) {
	for name, s := range map[string]Scenario{
		"unbounded":      {},
		"admitting 200":  {AdmitPerSecond: 200},
		"steady pauses":  {Pace: Steady},
		"steady and 200": {Pace: Steady, AdmitPerSecond: 200},
	} {
		b.Run(name, func(b *testing.B) {
			s.Agents, s.Servers, s.Failing = 100_000, 50, 50
			s.Outage, s.Recovery, s.Watch = 10*time.Minute, true, 6*time.Minute
			for b.Loop() {
				f := run(b, s)
				b.ReportMetric(float64(f.PeakConnects), "connects/s")
				b.ReportMetric(float64(f.PeakAttempts), "attempts/s")
				b.ReportMetric(f.AllBack.Seconds(), "s-until-all-back")
				b.ReportMetric(float64(f.Home), "home")
			}
		})
	}
}
