package ingress

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A canary is let in at once. While more agents want to connect than can be let in before they count as silent, it shows nothing.
func TestI11_AControlServerThatIsOverrunProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 10
		e := NewEvidence()
		s := &Service{Options: Options{Evidence: e, Metrics: NewMetrics(prometheus.NewRegistry())}, connects: newBucket(rate, time.Now())}
		proven := func() bool {
			e.came(time.Millisecond, nil)
			return e.request(0, Serving).GetCanaryRoundTrip() != nil
		}
		refused := 0
		come := func(agents int) {
			for range agents {
				if s.connect(time.Now()) != nil {
					refused++
				}
			}
		}
		come(50 * rate)
		if refused == 0 || !proven() {
			t.Fatalf("%d were refused and have their place in the line, proven %v", refused, proven())
		}
		come(50 * rate)
		if proven() {
			t.Fatal("overrun, and proven")
		}
		time.Sleep(overrunFor - time.Second)
		if proven() {
			t.Fatal("the refused may not have come again")
		}
		time.Sleep(time.Second)
		if !proven() {
			t.Fatal("none was refused since, and nothing is proven")
		}
	})
}
