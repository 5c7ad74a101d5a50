package failover

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config of an agent's failover. DefaultConfig has all but Registration.
type Config struct {
	// Registration are the endpoints that an agent registers with when it has no list, or when nobody on it answers. At least one.
	Registration []string

	// HeartbeatInterval is between heartbeats to the server worked with, give or take a tenth; 100 ms to 1 h.
	HeartbeatInterval time.Duration
	// ProbeInterval is between probes of the primary while another server is worked with, give or take a half; 100 ms to 24 h.
	ProbeInterval time.Duration
	// ReturnGrace is for how long those probes must be good before the agent returns; at most 24 h.
	ReturnGrace time.Duration
	// ListInterval is between a bus agent's questions for its list, give or take a quarter; 100 ms to 24 h.
	ListInterval time.Duration

	// FailoverGrace bounds the first pause, after the server worked with has failed.
	FailoverGrace time.Duration
	// ServerInterval bounds the pauses between servers; a fifth of it is the shortest. It doubles with each pass in which all failed,
	// up to ServerIntervalMax.
	ServerInterval, ServerIntervalMax time.Duration
	// BackoffInterval bounds the pause after a pass in which all failed. It doubles with each such pass, up to BackoffIntervalMax.
	BackoffInterval, BackoffIntervalMax time.Duration
	// RefusedInterval is between tries after a refusal, give or take a half.
	RefusedInterval time.Duration
}

// DefaultConfig is what agents use.
func DefaultConfig(registration ...string) Config {
	return Config{
		Registration:      registration,
		HeartbeatInterval: 30 * time.Second,
		ProbeInterval:     time.Minute, ReturnGrace: 2 * time.Minute,
		ListInterval:   10 * time.Minute,
		FailoverGrace:  5 * time.Second,
		ServerInterval: time.Second, ServerIntervalMax: 30 * time.Second,
		BackoffInterval: 5 * time.Second, BackoffIntervalMax: time.Minute,
		RefusedInterval: 5 * time.Minute,
	}
}

// Validate says every problem, each with its field.
func (c Config) Validate() error {
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("failover config: %s: %s", field, fmt.Sprintf(format, args...)))
	}
	if len(c.Registration) == 0 {
		bad("Registration", "at least one endpoint of a control server is required")
	}
	if slices.Contains(c.Registration, "") {
		bad("Registration", "an endpoint is empty")
	}
	const least, hour, day = 100 * time.Millisecond, time.Hour, 24 * time.Hour
	for _, f := range []struct {
		name            string
		value, min, max time.Duration
	}{
		{"HeartbeatInterval", c.HeartbeatInterval, least, hour},
		{"ProbeInterval", c.ProbeInterval, least, day},
		{"ReturnGrace", c.ReturnGrace, 0, day},
		{"ListInterval", c.ListInterval, least, day},
		{"FailoverGrace", c.FailoverGrace, 0, hour},
		{"ServerInterval", c.ServerInterval, time.Millisecond, hour},
		{"ServerIntervalMax", c.ServerIntervalMax, c.ServerInterval, hour},
		{"BackoffInterval", c.BackoffInterval, time.Millisecond, hour},
		{"BackoffIntervalMax", c.BackoffIntervalMax, c.BackoffInterval, day},
		{"RefusedInterval", c.RefusedInterval, least, day},
	} {
		if f.value < f.min || f.value > f.max {
			bad(f.name, "%s is not within %s to %s", f.value, f.min, f.max)
		}
	}
	return errors.Join(problems...)
}

// under is the configuration with no pause above what the control plane publishes, so that it knows how long an agent that lives may be silent.
// Only a refusal, which people have to see to, is asked about more rarely.
func (c Config) under(longest time.Duration) Config {
	if longest <= 0 {
		return c
	}
	for _, pause := range []*time.Duration{&c.FailoverGrace, &c.ServerInterval, &c.ServerIntervalMax, &c.BackoffInterval, &c.BackoffIntervalMax} {
		*pause = min(*pause, longest)
	}
	return c
}

// Random gives numbers in [0, 1), evenly.
type Random func() float64

// between draws evenly.
func (r Random) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r()*float64(most-least))
}

// around draws evenly from d, give or take a share of it.
func (r Random) around(d time.Duration, share float64) time.Duration {
	spread := time.Duration(share * float64(d))
	return r.between(d-spread, d+spread)
}

// gap is the pause before another server.
func (c Config) gap(passes int, random Random) time.Duration {
	longest := doubled(c.ServerInterval, c.ServerIntervalMax, passes)
	return random.between(longest/5, longest)
}

// backoff is the pause after so many passes in which all failed.
func (c Config) backoff(passes int, random Random) time.Duration {
	return random.between(0, doubled(c.BackoffInterval, c.BackoffIntervalMax, passes-1))
}

// patience is the pause before a server that is busy.
func (c Config) patience(asked time.Duration, random Random) time.Duration {
	if asked <= 0 {
		asked = c.BackoffInterval
	}
	asked = min(asked, c.BackoffIntervalMax)
	return random.between(asked, asked+asked/4)
}

// doubled d that many times, up to limit.
func doubled(d, limit time.Duration, times int) time.Duration {
	for ; times > 0 && d < limit; times-- {
		d *= 2
	}
	return min(d, limit)
}
