package heartbeat_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/config"
)

// lock is short, so that outages longer than max deliveries × lock duration are soon over.
const lock = time.Second

func shortLocks() emulator.SubscriptionProperties {
	return emulator.SubscriptionProperties{LockDuration: emulator.Duration(lock), MaxDeliveryCount: 3}
}

// outlast lets more than max deliveries × lock duration go by.
func outlast(t *testing.T) {
	timer := time.NewTimer(3*lock + 2*lock)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func TestI7_NothingIsSettledBeforeTheRegistryAnswered(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	arrived, answer := make(chan int, 10), make(chan struct{})
	registry.registry.set(func(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) error {
		arrived <- len(request.GetHeartbeats())
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	run(t, settings(e, registry))
	send(t, e, append(bodies(100, 1), "not json")...)
	for got := 0; got < 100; got += <-arrived {
	}
	// What cannot be read needs no answer.
	eventually(t, "dead-lettered", func() bool { return counts(t, e).DeadLetter == 1 })
	if found := counts(t, e); found.Active < 100 {
		t.Errorf("before the answer: %+v", found)
	}
	close(answer)
	drained(t, e)
	if got := registry.registry.agents(); got != 100 {
		t.Errorf("%d agents stored", got)
	}
}

func TestI7_AnOutageLongerThanAllDeliveriesLosesNothing(t *testing.T) {
	for name, outage := range map[string]func(*testing.T, *server) (over func()){
		"unavailable": func(_ *testing.T, s *server) func() {
			s.registry.set(unavailable)
			return func() { s.registry.set(nil) }
		},
		"stopped": func(t *testing.T, s *server) func() {
			s.stop()
			return func() { s.start(t) }
		},
		"hanging": func(_ *testing.T, s *server) func() {
			over := make(chan struct{})
			s.registry.set(func(ctx context.Context, _ *registryv1.RecordHeartbeatsRequest) error {
				select {
				case <-over:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
			return func() { close(over); s.registry.set(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, registry := newEmulator(t, shortLocks()), newServer(t)
			cfg := settings(e, registry)
			cfg.Ingest.HoldTimeout = time.Second // less than the outage: both holding and releasing are in it
			run(t, cfg)
			run(t, cfg)
			send(t, e, bodies(50, 1)...)
			drained(t, e)
			over := outage(t, registry)
			send(t, e, bodies(300, 2)...)
			outlast(t)
			if got := counts(t, e); got.DeadLetter != 0 {
				t.Errorf("during the outage: %+v", got)
			}
			over()
			drained(t, e)
			if got := counts(t, e); got.DeadLetter != 0 || registry.registry.agents() != 300 {
				t.Errorf("after the outage: %+v, %d agents stored", got, registry.registry.agents())
			}
		})
	}
}

// A registry that answers, but fails at its database, is an outage like any other.
func TestI7_ARegistryThatFailsAtEverythingBlamesNoHeartbeat(t *testing.T) {
	e, registry := newEmulator(t, shortLocks()), newServer(t)
	cfg := settings(e, registry)
	cfg.Ingest.HoldTimeout = time.Second
	run(t, cfg)
	registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		return status.Error(codes.Internal, "broken")
	})
	send(t, e, bodies(20, 1)...)
	outlast(t)
	registry.registry.set(nil)
	drained(t, e)
	if got := counts(t, e); got.DeadLetter != 0 || registry.registry.agents() != 20 {
		t.Errorf("%+v, %d agents stored", got, registry.registry.agents())
	}
}

func TestI7_PoisonIsDeadLetteredAndBlocksNothing(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	// The registry fails as a whole for one of them, and refuses the whole call for another.
	registry.registry.set(func(_ context.Context, request *registryv1.RecordHeartbeatsRequest) error {
		for _, one := range request.GetHeartbeats() {
			switch one.GetHeartbeat().GetName() {
			case "CRASH":
				return status.Error(codes.Internal, "panic")
			case "REFUSED":
				return status.Error(codes.InvalidArgument, "no such thing")
			}
		}
		return nil
	})
	run(t, settings(e, registry))
	all := bodies(200, 1)
	poison := map[string][2]string{
		`not json`:                 {"UNDECODABLE_HEARTBEAT", "not a Heartbeat as JSON"},
		`{"name":5}`:               {"UNDECODABLE_HEARTBEAT", "name"},
		`{"name":"X","sequence":}`: {"UNDECODABLE_HEARTBEAT", "JSON"},
		``:                         {"UNDECODABLE_HEARTBEAT", "empty"},
		`{"hostname":"nameless"}`:  {"INVALID_HEARTBEAT", "heartbeat.name"},
		`{"name":"CRASH"}`:         {"INVALID_HEARTBEAT", "panic"},
		`{"name":"REFUSED"}`:       {"INVALID_HEARTBEAT", "no such thing"},
	}
	all = slices.Insert(all, 100, slices.Collect(maps.Keys(poison))...)
	all = slices.Insert(all, 150, `{"name":"NEWER","aFieldOfTomorrow":{"x":[1,2]}}`)
	send(t, e, all...)
	// What fails alone is given up only once others were stored since.
	eventually(t, "dead-lettered", func() bool { send(t, e, bodies(1, 2)...); return counts(t, e).DeadLetter == len(poison) })
	drained(t, e)
	if got := registry.registry.agents(); got != 201 {
		t.Errorf("%d agents stored", got)
	}
	for body, message := range deadLetters(t, e, len(poison)) {
		want := poison[body]
		if message.DeadLetterReason == nil || *message.DeadLetterReason != want[0] || !strings.Contains(*message.DeadLetterErrorDescription, want[1]) {
			t.Errorf("%s: %v %v", body, deref(message.DeadLetterReason), deref(message.DeadLetterErrorDescription))
		}
	}
}

func deref(text *string) string {
	if text == nil {
		return "<nil>"
	}
	return *text
}

// A consumer that dies mid-batch leaves its messages to another.
func TestI7_AConsumerKilledMidBatchLosesNothing(t *testing.T) {
	e, registry := newEmulator(t, shortLocks()), newServer(t)
	client := bus(t, e)
	send(t, e, bodies(100, 1)...)
	dying, err := client.NewReceiverForSubscription(topic, subscription, nil)
	check(t, err)
	taken, err := dying.ReceiveMessages(t.Context(), 60, nil)
	check(t, err)
	if len(taken) == 0 {
		t.Fatal("nothing was taken")
	}
	check(t, client.Close(t.Context())) // nothing of it was settled
	run(t, settings(e, registry))
	drained(t, e)
	if got := counts(t, e); got.DeadLetter != 0 || registry.registry.agents() != 100 {
		t.Errorf("%+v, %d agents stored", got, registry.registry.agents())
	}
}

func TestI7_LostConnectionsLoseNothing(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{LockDuration: emulator.Duration(2 * time.Second), MaxDeliveryCount: 100}), newServer(t)
	run(t, settings(e, registry))
	run(t, settings(e, registry))
	for round := range 5 {
		send(t, e, bodies(400, round+1)...)
		e.DropConnections()
	}
	drained(t, e)
	if got := counts(t, e); got.DeadLetter != 0 || registry.registry.agents() != 400 {
		t.Errorf("%+v, %d agents stored", got, registry.registry.agents())
	}
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	for agent, sequence := range registry.registry.stored {
		if sequence != 5 {
			t.Fatalf("%s holds sequence %d", agent, sequence)
		}
	}
}

func TestI7_ADrainSettlesWhatItHolds(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	arrived, answer := make(chan struct{}, 100), make(chan struct{})
	registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		arrived <- struct{}{}
		<-answer
		return nil
	})
	r := run(t, settings(e, registry))
	send(t, e, bodies(50, 1)...)
	<-arrived
	r.stop()
	close(answer)
	r.end(t)
	// What was received was recorded and settled; the rest was never taken. Nothing is locked until a lock lapses.
	if got := counts(t, e); got.Locked != 0 || got.DeadLetter != 0 || got.Active+registry.registry.agents() < 50 {
		t.Errorf("%+v, %d agents stored", got, registry.registry.agents())
	}
}

func TestI7_ADrainReleasesWhatTheRegistryDoesNotTake(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	arrived := make(chan struct{}, 100)
	registry.registry.set(func(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) error {
		arrived <- struct{}{}
		return unavailable(ctx, request)
	})
	r := run(t, settings(e, registry))
	send(t, e, bodies(50, 1)...)
	<-arrived
	r.end(t)
	if got := counts(t, e); got.Active < 50 || got.Locked != 0 || got.DeadLetter != 0 {
		t.Errorf("%+v", got)
	}
}

// Duplicates, old ones and redelivery all are completed: the registry keeps the newest.
func TestI6_RepeatedAndReorderedHeartbeatsAreCompleted(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	run(t, settings(e, registry))
	send(t, e, slices.Concat(bodies(50, 3), bodies(50, 1), bodies(50, 3), bodies(50, 2))...)
	drained(t, e)
	if got := counts(t, e); got.DeadLetter != 0 {
		t.Errorf("%+v", got)
	}
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	for agent, sequence := range registry.registry.stored {
		if sequence != 3 {
			t.Errorf("%s holds sequence %d", agent, sequence)
		}
	}
}

func TestI7_ReplicasCompeteAndStoreEach(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	var first, second atomic.Int64
	others := newServer(t)
	count := func(of *atomic.Int64) func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		return func(_ context.Context, request *registryv1.RecordHeartbeatsRequest) error {
			of.Add(int64(len(request.GetHeartbeats())))
			return nil
		}
	}
	registry.registry.set(count(&first))
	others.registry.set(count(&second))
	run(t, settings(e, registry))
	run(t, settings(e, others))
	for round := 1; first.Load() == 0 || second.Load() == 0 || round < 4; round++ {
		send(t, e, bodies(300, round)...)
		drained(t, e)
		if round > 200 {
			t.Fatalf("one replica gets everything: %d and %d", first.Load(), second.Load())
		}
	}
	for i := range 300 {
		name := fmt.Sprintf("AGENT-%06d", i)
		if registry.registry.stored[name]+others.registry.stored[name] == 0 {
			t.Errorf("%s is nowhere", name)
		}
	}
	if got := counts(t, e); got.DeadLetter != 0 {
		t.Errorf("%+v", got)
	}
}

func TestProtobufBodies(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	run(t, settings(e, registry))
	body, err := proto.Marshal(&agentv1.Heartbeat{Name: "BINARY", Sequence: 7})
	check(t, err)
	sender, err := bus(t, e).NewSender(topic, nil)
	check(t, err)
	check(t, sender.SendMessage(t.Context(), &azservicebus.Message{Body: body, ContentType: proto.String("application/protobuf")}, nil))
	drained(t, e)
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	if registry.registry.stored["BINARY"] != 7 {
		t.Errorf("stored: %v", registry.registry.stored)
	}
}

func TestI11_EvidenceComesThroughTheWholeIngest(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	r := run(t, settings(e, registry))
	eventually(t, "evidence with a canary", func() bool {
		all := registry.registry.evidence()
		return len(all) > 0 && all[len(all)-1].GetCanaryRoundTrip() != nil
	})
	proof := registry.registry.evidence()
	last := proof[len(proof)-1]
	if last.GetPath() != registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS || last.GetConsumerId() == "" ||
		last.GetOldestMessageAge() == nil || last.GetSinceLastReceive() == nil || last.GetCanaryRoundTrip().AsDuration() <= 0 {
		t.Errorf("evidence: %v", last)
	}
	drained(t, e) // canaries are completed
	eventually(t, "ready", func() bool { ready, _ := r.ready(); return ready })

	conn, err := grpc.NewClient(r.at.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer conn.Close()
	serving := func() healthv1.HealthCheckResponse_ServingStatus {
		answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: heartbeat.HealthService})
		check(t, err)
		return answer.GetStatus()
	}
	eventually(t, "serving", func() bool { return serving() == healthv1.HealthCheckResponse_SERVING })
	registry.stop()
	eventually(t, "not serving without the registry", func() bool { return serving() == healthv1.HealthCheckResponse_NOT_SERVING })
	if ready, why := r.ready(); ready || !strings.Contains(why, "registry") {
		t.Errorf("ready %v: %s", ready, why)
	}
	registry.start(t)
	eventually(t, "serving again", func() bool { return serving() == healthv1.HealthCheckResponse_SERVING })
}

// A canary proves nothing while heartbeats beside it cannot be stored.
func TestI11_NoEvidenceWhileHeartbeatsCannotBeStored(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	registry.registry.set(unavailable)
	check(t, e.PauseSubscription(topic, subscription, true))
	run(t, settings(e, registry))
	send(t, e, bodies(1, 1)...)
	eventually(t, "some reports", func() bool { return len(registry.registry.evidence()) >= 2 })
	check(t, e.PauseSubscription(topic, subscription, false))
	before := len(registry.registry.evidence())
	eventually(t, "more reports", func() bool { return len(registry.registry.evidence()) >= before+3 })
	for _, proof := range registry.registry.evidence() {
		if proof.GetCanaryRoundTrip() != nil {
			t.Fatalf("a canary came through although nothing could be stored: %v", proof)
		}
	}
	registry.registry.set(nil)
	eventually(t, "evidence", func() bool {
		all := registry.registry.evidence()
		return all[len(all)-1].GetCanaryRoundTrip() != nil
	})
}

func TestI17_StartNamesWhatIsMissing(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	for want, change := range map[string]func(*heartbeat.Config){
		"subscription agent-state/nope": func(c *heartbeat.Config) { c.Bus.Subscriptions.State = "nope" },
		"topic elsewhere":               func(c *heartbeat.Config) { c.Bus.Topics.State = "elsewhere" },
	} {
		cfg := settings(e, registry)
		change(&cfg)
		err := heartbeat.Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestI17_ConfigurationErrorsNameTheKey(t *testing.T) {
	for key, change := range map[string]func(*heartbeat.Config){
		"bus":                      func(c *heartbeat.Config) { c.Bus.ConnectionString = "" },
		"bus.connectionString":     func(c *heartbeat.Config) { c.Bus.ConnectionString = "Server=sql" },
		"bus.connectionStringFile": func(c *heartbeat.Config) { c.Bus.ConnectionStringFile = "/does/not/exist" },
		"bus.topics.state":         func(c *heartbeat.Config) { c.Bus.Topics.State = "" },
		"registry.target":          func(c *heartbeat.Config) { c.Registry.Target = "" },
		"registry.tokenFile":       func(c *heartbeat.Config) { c.Registry.TokenFile = "/does/not/exist" },
		"grpc.listen":              func(c *heartbeat.Config) { c.GRPC.Listen = "0.0.0.0:7420" },
		"grpc.tokenFile":           func(c *heartbeat.Config) { c.GRPC.TokenFile = "/does/not/exist" },
		"admin.listen":             func(c *heartbeat.Config) { c.Admin.Listen = "0.0.0.0:7421" },
		"ingest.batch":             func(c *heartbeat.Config) { c.Ingest.Batch = 1001 },
		"ingest.workers":           func(c *heartbeat.Config) { c.Ingest.Workers = 0 },
		"ingest.holdTimeout":       func(c *heartbeat.Config) { c.Ingest.HoldTimeout = time.Millisecond },
	} {
		cfg := heartbeat.DefaultConfig()
		cfg.Bus.ConnectionString = config.Secret("Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=fake;UseDevelopmentEmulator=true")
		check(t, cfg.Validate())
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A bus that is not there yet does not end the start; the service is not ready, and becomes so by itself.
func TestStartsBeforeTheBus(t *testing.T) {
	registry := newServer(t)
	e := newEmulator(t, emulator.SubscriptionProperties{})
	cfg := settings(e, registry)
	check(t, e.Close())
	r := run(t, cfg)
	if ready, why := r.ready(); ready {
		t.Errorf("ready without a bus: %s", why)
	}
	again, err := emulator.Start(emulator.Config{UserConfig: emulator.UserConfig{Namespaces: []emulator.Namespace{{
		Topics: []emulator.Topic{{Name: topic, Subscriptions: []emulator.Subscription{{Name: subscription}}}},
	}}}}, emulator.Options{Listen: e.Addr()})
	check(t, err)
	defer func() { check(t, again.Close()) }()
	eventually(t, "ready", func() bool { ready, _ := r.ready(); return ready })
	send(t, again, bodies(3, 1)...)
	drained(t, again)
	if got := registry.registry.agents(); got != 3 {
		t.Errorf("%d agents stored", got)
	}
	r.end(t)
}

// Whatever the broker or the network does, every heartbeat is stored and nothing but poison is dead-lettered.
func TestI7_FaultsOfTheBrokerLoseNothing(t *testing.T) {
	const address = topic + "/Subscriptions/" + subscription
	for name, fault := range map[string]func(*emulator.Emulator) error{
		"links detached": func(e *emulator.Emulator) error {
			_, err := e.DetachLinks(address, "amqp:link:detach-forced")
			return err
		},
		"locks expired": func(e *emulator.Emulator) error { return e.ExpireLocks(topic, subscription) },
		"server busy":   func(e *emulator.Emulator) error { e.Throttle(20); return nil },
		"links refused": func(e *emulator.Emulator) error {
			e.DropConnections()
			return e.RefuseAttaches(address, "com.microsoft:timeout", 3)
		},
		"tokens refused":    func(e *emulator.Emulator) error { e.DropConnections(); e.RefuseAuth(2); return nil },
		"settlements mute":  func(e *emulator.Emulator) error { return e.LoseDispositions(address, 30) },
		"everything slow":   func(e *emulator.Emulator) error { e.Delay(50 * time.Millisecond); return nil },
		"deliveries paused": func(e *emulator.Emulator) error { return e.PauseSubscription(topic, subscription, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, registry := newEmulator(t, emulator.SubscriptionProperties{LockDuration: emulator.Duration(5 * time.Second), MaxDeliveryCount: 10}), newServer(t)
			run(t, settings(e, registry))
			send(t, e, bodies(100, 1)...)
			drained(t, e)
			// In the middle of a batch.
			arrived, goOn := make(chan struct{}, 100), make(chan struct{})
			registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
				arrived <- struct{}{}
				<-goOn
				return nil
			})
			send(t, e, bodies(200, 2)...)
			<-arrived
			check(t, fault(e))
			close(goOn)
			eventually(t, "stored, though it may be settled later", func() bool { return registry.registry.agents() > 100 })
			e.EndFaults()
			send(t, e, bodies(300, 3)...)
			drained(t, e)
			if got := counts(t, e); got.DeadLetter != 0 || registry.registry.agents() != 300 {
				t.Errorf("%+v, %d agents stored", got, registry.registry.agents())
			}
			registry.registry.mu.Lock()
			defer registry.registry.mu.Unlock()
			for agent, sequence := range registry.registry.stored {
				if sequence != 3 {
					t.Fatalf("%s holds sequence %d", agent, sequence)
				}
			}
		})
	}
}

// What comes again, after newer ones, because its lock was lost while it was recorded, is completed and moves nothing back.
func TestI6_WhatIsRedeliveredAfterNewerOnesIsCompleted(t *testing.T) {
	e, registry := newEmulator(t, emulator.SubscriptionProperties{}), newServer(t)
	arrived, goOn := make(chan struct{}, 100), make(chan struct{})
	registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		arrived <- struct{}{}
		<-goOn
		return nil
	})
	run(t, settings(e, registry))
	send(t, e, bodies(50, 1)...)
	<-arrived
	check(t, e.ExpireLocks(topic, subscription))
	send(t, e, bodies(50, 2)...)
	close(goOn)
	drained(t, e)
	if got := counts(t, e); got.DeadLetter != 0 {
		t.Errorf("%+v", got)
	}
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	if registry.registry.items < 150 {
		t.Errorf("%d heartbeats were recorded; nothing came again", registry.registry.items)
	}
	for agent, sequence := range registry.registry.stored {
		if sequence != 2 {
			t.Errorf("%s holds sequence %d", agent, sequence)
		}
	}
}
