package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/story"
)

const (
	busAgent  = "BENCH-BUS"
	httpAgent = "BENCH-HTTP"
)

// benchCommands measures a routed command against the same call without us between.
func (r *Report) benchCommands(ctx context.Context, s *system) error {
	simulated, err := fleet.Start(ctx, fleet.Config{
		ConnectionString: s.emulator.ConnectionString(),
		Agents: []fleet.Agent{
			{Name: busAgent, ServiceBus: true},
			{Name: httpAgent, HTTP: true},
		},
		HeartbeatInterval: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer simulated.Close() //nolint:errcheck // what it did was measured
	if err := simulated.Ready(ctx); err != nil {
		return err
	}
	base, err := simulated.HTTPBaseURL(httpAgent)
	if err != nil {
		return err
	}
	if err := s.acceptBoth(ctx, base); err != nil {
		return err
	}
	return errors.Join(r.benchHTTP(ctx, s, base), r.benchBus(ctx, s))
}

func (s *system) acceptBoth(ctx context.Context, base string) error {
	rest := story.Client{Base: s.rest, HTTP: http.DefaultClient}
	added, err := rest.Do(ctx, http.MethodPost, "/api/config/agents", map[string]any{
		"name": httpAgent, "httpBaseUrl": base, "createServer": map[string]any{"url": "https://bench-http.example.test"},
	}, "")
	if err != nil || added.Status != http.StatusOK {
		return errors.Join(err, fmt.Errorf("adding %s answered %d %s", httpAgent, added.Status, added.Raw))
	}
	return s.accept(ctx, busAgent)
}

// accept waits for an agent's first heartbeat, and accepts it with a server of its own.
func (s *system) accept(ctx context.Context, agent string) error {
	rest := story.Client{Base: s.rest, HTTP: http.DefaultClient}
	deadline := time.Now().Add(20 * time.Second)
	for {
		seen, err := rest.Do(ctx, http.MethodGet, "/api/config/agents/"+agent, nil, "")
		if err != nil {
			return err
		}
		if seen.Status == http.StatusOK {
			accepted, err := rest.Do(ctx, http.MethodPost, "/api/config/agents/"+agent+":accept", map[string]any{
				"createServer": map[string]any{"url": "https://bench.example.test"},
			}, seen.Text("etag"))
			if err != nil || accepted.Status != http.StatusOK {
				return errors.Join(err, fmt.Errorf("accepting %s answered %d %s", agent, accepted.Status, accepted.Raw))
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not appear", agent)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *Report) benchHTTP(ctx context.Context, s *system, base string) error {
	client := pooled(64)
	routed := func() error { return get(ctx, client, s.rest+"/api/agents/"+httpAgent+"/services") }
	direct := func() error { return directCommand(ctx, client, base) }
	// In turn, so that both meet the same machine.
	var routedTimes, directTimes []time.Duration
	for i := range 600 {
		d, err := timed(direct)
		if err != nil {
			return err
		}
		g, err := timed(routed)
		if err != nil {
			return err
		}
		if i >= 100 {
			directTimes, routedTimes = append(directTimes, d), append(routedTimes, g)
		}
	}
	r.Add(Figure{
		Name: "routed HTTP read command, median added to a direct call", Value: milliseconds(median(routedTimes) - median(directTimes)), Unit: "ms", Target: 1,
		Baseline: milliseconds(median(directTimes)), BaselineName: "the direct call itself",
	})
	directRate, err := throughput(32, scaled(6000), direct)
	if err != nil {
		return err
	}
	routedRate, err := throughput(32, scaled(12000), routed)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "routed HTTP read commands, 32 at once", Value: routedRate, Unit: "/s", Target: 3000, AtLeast: true,
		Baseline: directRate, BaselineName: "direct calls",
	})
	return nil
}

func (r *Report) benchBus(ctx context.Context, s *system) error {
	client := pooled(64)
	read := func() error { return get(ctx, client, s.rest+"/api/agents/"+busAgent+"/services") }
	var times []time.Duration
	for i := range 400 {
		took, err := timed(read)
		if err != nil {
			return err
		}
		if i >= 100 {
			times = append(times, took)
		}
	}
	bare, err := s.bareRoundTrip(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "read command over Service Bus and back, median", Value: milliseconds(median(times)), Unit: "ms", Target: 2.5,
		Baseline: milliseconds(bare), BaselineName: "a bare SDK send and receive",
	})
	rate, err := throughput(32, scaled(4000), read)
	if err != nil {
		return err
	}
	sends, err := s.bareSends(ctx, 32, scaled(4000))
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "read commands over Service Bus, 32 at once, one agent", Value: rate, Unit: "/s", Baseline: sends, BaselineName: "bare SDK sends, one way",
	})
	return nil
}

// inFlightAgents is how many agents share the commands in flight.
const inFlightAgents = 64

// benchInFlight measures commands over the bus to many agents, with 1, 32 and 256 in flight.
func (r *Report) benchInFlight(ctx context.Context, s *system) error {
	agents := fleet.Numbered(inFlightAgents, fleet.Agent{Name: "FLIGHT-", ServiceBus: true})
	simulated, err := fleet.Start(ctx, fleet.Config{ConnectionString: s.emulator.ConnectionString(), Agents: agents, HeartbeatInterval: 5 * time.Second})
	if err != nil {
		return err
	}
	defer simulated.Close() //nolint:errcheck // what it did was measured
	if err := simulated.Ready(ctx); err != nil {
		return err
	}
	for _, agent := range agents {
		if err := s.accept(ctx, agent.Name); err != nil {
			return err
		}
	}
	client := pooled(256)
	var next atomic.Int64
	for _, inFlight := range []int{1, 32, 256} {
		var mu sync.Mutex
		var times []time.Duration
		rate, err := throughput(inFlight, scaled(1000+20*inFlight), func() error {
			agent := agents[int(next.Add(1))%len(agents)].Name
			took, err := timed(func() error { return get(ctx, client, s.rest+"/api/agents/"+agent+"/services") })
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took)
			return err
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("read commands over Service Bus to %d agents, %d in flight", inFlightAgents, inFlight)
		r.Add(Figure{Name: name, Value: rate, Unit: "/s"})
		r.Add(Figure{Name: name + ": p50", Value: milliseconds(quantile(times, 0.5)), Unit: "ms"})
		r.Add(Figure{Name: name + ": p99", Value: milliseconds(quantile(times, 0.99)), Unit: "ms"})
	}
	return nil
}

// bareSends sends messages that nobody receives, so many at once, and returns sends/s.
func (s *system) bareSends(ctx context.Context, parallel, total int) (float64, error) {
	client, err := azservicebus.NewClientFromConnectionString(s.emulator.ConnectionString(), nil)
	if err != nil {
		return 0, err
	}
	defer client.Close(context.WithoutCancel(ctx))
	sender, err := client.NewSender("agent-replies", nil)
	if err != nil {
		return 0, err
	}
	session := "bench-sends"
	return throughput(parallel, total, func() error {
		return sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("{}"), SessionID: &session}, nil)
	})
}

// bareRoundTrip is one message through the emulator with nothing of ours but the emulator: send, receive, complete.
func (s *system) bareRoundTrip(ctx context.Context) (time.Duration, error) {
	client, err := azservicebus.NewClientFromConnectionString(s.emulator.ConnectionString(), nil)
	if err != nil {
		return 0, err
	}
	defer client.Close(context.WithoutCancel(ctx))
	const session = "bench-round-trip"
	sender, err := client.NewSender("agent-replies", nil)
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	id := session
	message := &azservicebus.Message{Body: []byte("{}"), SessionID: &id}
	if err := sender.SendMessage(ctx, message, nil); err != nil {
		return 0, err
	}
	receiver, err := client.AcceptSessionForSubscription(ctx, "agent-replies", "gateways", session, nil)
	if err != nil {
		return 0, err
	}
	for i := range 300 {
		took, err := timed(func() error {
			if i > 0 {
				if err := sender.SendMessage(ctx, message, nil); err != nil {
					return err
				}
			}
			got, err := receiver.ReceiveMessages(ctx, 1, nil)
			if err != nil || len(got) == 0 {
				return errors.Join(err, errors.New("nothing received"))
			}
			return receiver.CompleteMessage(ctx, got[0], nil)
		})
		if err != nil {
			return 0, err
		}
		times = append(times, took)
	}
	return median(times[100:]), nil
}

func pooled(connections int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connections
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return expectOK(client.Do(request))
}

func directCommand(ctx context.Context, client *http.Client, base string) error {
	// Each command has an id of its own, since an agent runs one id once.
	body := fmt.Sprintf(`{"commandId":"%s","targetAgent":"%s","budget":"5s","listServices":{}}`, newUUID(), httpAgent)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/agent/v1/commands", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return expectOK(client.Do(request))
}

func expectOK(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d %s", response.StatusCode, body)
	}
	return nil
}

func timed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// throughput makes total calls, so many at once, and returns calls/s.
func throughput(parallel, total int, call func() error) (float64, error) {
	var left atomic.Int64
	left.Store(int64(total))
	failures := make([]error, parallel)
	var group sync.WaitGroup
	began := time.Now()
	for i := range parallel {
		group.Go(func() {
			for left.Add(-1) >= 0 && failures[i] == nil {
				failures[i] = call()
			}
		})
	}
	group.Wait()
	return float64(total) / time.Since(began).Seconds(), errors.Join(failures...)
}
