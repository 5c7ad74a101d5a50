package failover

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestI17_AConfigurationIsRefusedByField(t *testing.T) {
	if err := DefaultConfig("s1:443").Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Config){
		"Registration: at least": func(c *Config) { c.Registration = nil },
		"Registration: an end":   func(c *Config) { c.Registration = []string{"s1:443", ""} },
		"HeartbeatInterval":      func(c *Config) { c.HeartbeatInterval = 0 },
		"ProbeInterval":          func(c *Config) { c.ProbeInterval = 25 * time.Hour },
		"ReturnGrace":            func(c *Config) { c.ReturnGrace = -1 },
		"ListInterval":           func(c *Config) { c.ListInterval = time.Millisecond },
		"FailoverGrace":          func(c *Config) { c.FailoverGrace = -1 },
		"ServerInterval":         func(c *Config) { c.ServerInterval = 0 },
		"ServerIntervalMax":      func(c *Config) { c.ServerIntervalMax = c.ServerInterval - 1 },
		"BackoffInterval":        func(c *Config) { c.BackoffInterval = 0 },
		"BackoffIntervalMax":     func(c *Config) { c.BackoffIntervalMax = c.BackoffInterval - 1 },
		"RefusedInterval":        func(c *Config) { c.RefusedInterval = 0 },
	} {
		c := DefaultConfig("s1:443")
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "failover config: "+field) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestPausesAreWithinBounds(t *testing.T) {
	cfg := DefaultConfig("s1:443")
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
		random := Random(func() float64 { return u })
		passes := rapid.IntRange(0, 1<<40).Draw(t, "passes")
		for name, c := range map[string]struct{ got, least, most time.Duration }{
			"gap":             {cfg.gap(passes, random), 200 * time.Millisecond, 30 * time.Second},
			"gap, first pass": {cfg.gap(0, random), 200 * time.Millisecond, time.Second},
			"backoff":         {cfg.backoff(passes, random), 0, time.Minute},
			"backoff, first":  {cfg.backoff(1, random), 0, 5 * time.Second},
			"patience":        {cfg.patience(time.Duration(passes), random), 0, 150 * time.Second},
		} {
			if c.got < c.least || c.got > c.most {
				t.Fatalf("%s: %v is not within %v to %v", name, c.got, c.least, c.most)
			}
		}
	})
}

func TestACleanListHasNoRepetitions(t *testing.T) {
	dirty := List{Etag: "e", Servers: []Server{{"a", "1"}, {"b", ""}, {"c", "1"}, {"", "2"}}}
	if want := (List{Etag: "e", Servers: []Server{{"a", "1"}, {"", "2"}}}); !dirty.Clean().Equal(want) {
		t.Fatalf("got %v", dirty.Clean())
	}
	if got := (List{Etag: "e", Servers: []Server{{"b", ""}}}).Clean(); !got.Empty() || got.Etag != "" {
		t.Fatalf("got %v", got)
	}
}
