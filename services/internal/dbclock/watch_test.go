package dbclock

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The log says of a step ahead that the machine may have stood still, and of a step back that the clock was stepped.
func TestTheLogNamesBothCausesOfAStepAhead(t *testing.T) {
	for step, stoodStill := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		var log bytes.Buffer
		w := NewWatch(func(context.Context) (time.Duration, error) { return step, nil }, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
		w.once(t.Context())
		if strings.Contains(log.String(), "or this service's machine stood still") != stoodStill || !strings.Contains(log.String(), "by="+step.String()) {
			t.Errorf("%s: %s", step, log.String())
		}
	}
}
