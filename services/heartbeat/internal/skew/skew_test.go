package skew

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestAClockIsMeasuredOverACall(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	database := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		began, ended  time.Duration // by the clock that is measured, from the database's reading
		ahead, within time.Duration
	}{
		{-100 * time.Millisecond, 100 * time.Millisecond, 0, 100 * time.Millisecond},
		{-time.Minute, -time.Minute, -time.Minute, 0},
		{time.Hour, time.Hour + 2*time.Second, time.Hour + time.Second, time.Second},
	} {
		got := m.Own(database.Add(c.began), database.Add(c.ended), timestamppb.New(database))
		if got.GetAhead().AsDuration() != c.ahead || got.GetUncertainty().AsDuration() != c.within {
			t.Errorf("%s to %s: %v, want %s within %s", c.began, c.ended, got, c.ahead, c.within)
		}
	}
	if got := m.Own(database, database, nil); got != nil {
		t.Error("an answer without the database's time measures", got)
	}
}
