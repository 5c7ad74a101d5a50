package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

const (
	stateTopic        = "agent-state"
	stateSubscription = "commandcenter"
	senders           = 4
	sendBatch         = 100
)

// heartbeat is one agent's heartbeat as JSON, as an agent in the field sends it.
func heartbeat(prefix string, agent int, boot string, sequence int) []byte {
	return fmt.Appendf(nil, `{"name":"%s-%06d","hostname":"host-%06d.example.test","agentVersion":"4.2.0","bootId":"%s-%06d","sequence":"%d","reportedAt":"%s"}`,
		prefix, agent, agent, boot, agent, sequence, time.Now().UTC().Format(time.RFC3339Nano))
}

// send sends one round of heartbeats of every agent, from a few senders at once.
func (s *system) send(ctx context.Context, prefix string, agents, rounds int, boot string) error {
	client, err := azservicebus.NewClientFromConnectionString(s.emulator.ConnectionString(), nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	failures := make([]error, senders)
	for i := range senders {
		group.Go(func() {
			sender, err := client.NewSender(stateTopic, nil)
			if err != nil {
				failures[i] = err
				return
			}
			from, to := agents*i/senders, agents*(i+1)/senders
			for round := 1; round <= rounds && failures[i] == nil; round++ {
				failures[i] = sendRange(ctx, sender, prefix, from, to, boot, round)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func sendRange(ctx context.Context, sender *azservicebus.Sender, prefix string, from, to int, boot string, sequence int) error {
	for at := from; at < to; at += sendBatch {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return err
		}
		for agent := at; agent < min(at+sendBatch, to); agent++ {
			message := &azservicebus.Message{Body: heartbeat(prefix, agent, boot, sequence), ContentType: &jsonType}
			if err := batch.AddMessage(message, nil); err != nil {
				return err
			}
		}
		if err := sender.SendMessageBatch(ctx, batch, nil); err != nil {
			return err
		}
	}
	return nil
}

var jsonType = "application/json"

// drained waits until the subscription is empty, nothing locked either.
func (s *system) drained(ctx context.Context) error {
	for {
		counts, err := s.emulator.Counts(stateTopic, stateSubscription)
		if err != nil {
			return err
		}
		if counts.DeadLetter > 0 {
			return fmt.Errorf("%d heartbeats were dead-lettered", counts.DeadLetter)
		}
		if counts.Active == 0 && counts.Locked == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not drained in time: %d active, %d locked", counts.Active, counts.Locked)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// cpu is what heartbeat and registry used so far.
func (s *system) cpu() (time.Duration, error) {
	registry, err := s.registry.CPU()
	if err != nil {
		return 0, err
	}
	heartbeat, err := s.heartbeats[0].CPU()
	return registry + heartbeat, err
}

type ingestRun struct {
	rate        float64 // heartbeats/s, first send to last settlement
	cpuPer1000  float64 // seconds of heartbeat + registry
	sendOnly    float64 // heartbeats/s into the emulator, senders alone
	heartbeats  int
	firstCreate float64 // new agents/s, the warm-up
}

// ingest makes agents known, then measures rounds of heartbeats of all of them.
func (s *system) ingest(ctx context.Context, prefix string, agents, rounds int) (ingestRun, error) {
	run := ingestRun{heartbeats: agents * rounds}
	began := time.Now()
	if err := errors.Join(s.send(ctx, prefix, agents, 1, "a"), s.drained(ctx)); err != nil {
		return run, err
	}
	run.firstCreate = float64(agents) / time.Since(began).Seconds()
	before, err := s.cpu()
	if err != nil {
		return run, err
	}
	began = time.Now()
	if err := s.send(ctx, prefix, agents, rounds, "b"); err != nil {
		return run, err
	}
	run.sendOnly = float64(run.heartbeats) / time.Since(began).Seconds()
	if err := s.drained(ctx); err != nil {
		return run, err
	}
	run.rate = float64(run.heartbeats) / time.Since(began).Seconds()
	after, err := s.cpu()
	if err != nil {
		return run, err
	}
	run.cpuPer1000 = (after - before).Seconds() / float64(run.heartbeats) * 1000
	return run, s.checkStored(ctx, prefix, agents, rounds)
}

// checkStored makes sure that a fast figure is not a lossy one: sampled agents hold their newest heartbeat.
func (s *system) checkStored(ctx context.Context, prefix string, agents, rounds int) error {
	for agent := 0; agent < agents; agent += max(1, agents/200) {
		name := fmt.Sprintf("%s-%06d", prefix, agent)
		got, err := s.agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
		if err != nil {
			return err
		}
		if got.GetAgent().GetSequence() != int64(rounds) {
			return fmt.Errorf("%s holds sequence %d, expected %d", name, got.GetAgent().GetSequence(), rounds)
		}
	}
	return nil
}

// BenchIngest measures ingest at 10,000 and at 100,000 agents.
func (r *Report) benchIngest(ctx context.Context, s *system) error {
	small, err := s.ingest(ctx, "TEN", 10_000, scaled(12))
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "heartbeats ingested, 10,000 agents, one replica", Value: small.rate, Unit: "/s", Target: 8000, AtLeast: true,
		Baseline: small.sendOnly, BaselineName: "sent into the emulator meanwhile",
	})
	r.Add(Figure{
		Name: "CPU of heartbeat + registry per 1,000 heartbeats, 10,000 agents", Value: small.cpuPer1000, Unit: "s", Target: 0.10,
		Baseline: 0.41, BaselineName: "a durable Consul write, measured elsewhere",
	})
	large, err := s.ingest(ctx, "HUNDRED", 100_000, scaled(2))
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "heartbeats ingested, 100,000 agents, one replica", Value: large.rate, Unit: "/s", Baseline: small.rate, BaselineName: "10,000 agents"})
	r.Add(Figure{
		Name: "CPU of heartbeat + registry per 1,000 heartbeats, 100,000 agents", Value: large.cpuPer1000, Unit: "s", Target: small.cpuPer1000 * 1.25,
		Baseline: small.cpuPer1000, BaselineName: "10,000 agents",
	})
	return nil
}

// scaled lets FLEET_BENCH_SCALE shrink or stretch the amount of work (0.1 to 10).
func scaled(amount int) int {
	scale, err := strconv.ParseFloat(os.Getenv("FLEET_BENCH_SCALE"), 64)
	if err != nil || scale < 0.1 || scale > 10 {
		return amount
	}
	return max(1, int(float64(amount)*scale))
}

// benchFreshness measures the time from a heartbeat sent to its row changed, on an idle system.
func (r *Report) benchFreshness(ctx context.Context, s *system) error {
	client, err := azservicebus.NewClientFromConnectionString(s.emulator.ConnectionString(), nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	sender, err := client.NewSender(stateTopic, nil)
	if err != nil {
		return err
	}
	var times []time.Duration
	for i := 1; i <= 101; i++ {
		began := time.Now()
		if err := sender.SendMessage(ctx, &azservicebus.Message{Body: heartbeat("IDLE", 1, "a", i), ContentType: &jsonType}, nil); err != nil {
			return err
		}
		for {
			got, err := s.agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: "IDLE-000001"})
			if err == nil && got.GetAgent().GetSequence() >= int64(i) {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(500 * time.Microsecond)
		}
		times = append(times, time.Since(began))
	}
	bare, err := s.bareRoundTrip(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "heartbeat sent to row changed, idle, median of 101", Value: milliseconds(median(times)), Unit: "ms", Target: 50,
		Baseline: milliseconds(bare), BaselineName: "a bare SDK send and receive",
	})
	return nil
}
