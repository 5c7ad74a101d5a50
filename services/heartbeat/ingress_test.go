package heartbeat_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestAnAgentRegistersAndIsHeard(t *testing.T) {
	registry := newServer(t)
	list := &agentv1.FailoverList{Etag: "e-1", Servers: []*agentv1.ControlServerAddress{{Name: "cs-1", GrpcEndpoint: "cs-1:7422"}}}
	registry.registry.setDirect(func(d *direct) { d.list = list })
	before := time.Now()
	client := agents(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))

	request := registration("BM-1", 1)
	request.Protocols = &heartbeatv1.ProtocolRange{Min: 1, Max: 4}
	registered, err := client.Register(t.Context(), request)
	check(t, err)
	if registered.GetControlServer() != "cs-1" || registered.GetHeartbeatInterval().AsDuration() != 30*time.Second || !proto.Equal(registered.GetFailoverList(), list) {
		t.Errorf("registered: %v", registered)
	}
	_, err = client.Register(t.Context(), request) // repeated freely
	check(t, err)
	second := beat("BM-1", 1, 2)
	second.ListEtag = "e-1"
	heard, err := client.Heartbeat(t.Context(), second)
	check(t, err)
	if heard.GetFailoverList() != nil || heard.GetDraining() {
		t.Errorf("heard: %v", heard)
	}
	_, err = client.Heartbeat(t.Context(), beat("BM-1", 1, 1)) // an old one, which is no failure
	check(t, err)
	heard, err = client.Heartbeat(t.Context(), beat("BM-1", 1, 2)) // a duplicate, of an agent that has no list
	check(t, err)
	if !proto.Equal(heard.GetFailoverList(), list) {
		t.Errorf("heard: %v", heard)
	}
	sum := sha256.Sum256([]byte(tokenOf(1)))
	for i, one := range registry.registry.directs() {
		if !bytes.Equal(one.GetIdentity().GetTokenHash(), sum[:]) || one.GetIdentity().GetEnrols() != (i < 2) ||
			one.GetPath() != registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT {
			t.Errorf("the registry got %v", one)
		}
		if at := one.GetObservedAt().AsTime(); at.Before(before) || at.After(time.Now()) {
			t.Errorf("observed at %s", at)
		}
	}
	pong, err := client.Ping(t.Context(), &heartbeatv1.PingRequest{})
	check(t, err)
	if pong.GetControlServer() != "cs-1" || !pong.GetTakesAgents() || pong.GetProtocols().GetMin() != 1 || pong.GetProtocols().GetMax() != 1 {
		t.Errorf("pong: %v", pong)
	}
}

// Each result of the registry has its answer, and none but the good ones is OK.
func TestEachResultHasItsAnswer(t *testing.T) {
	registry := newServer(t)
	client := agents(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	_, err := client.Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	registry.registry.mu.Lock()
	registry.registry.stored["BUS-1"] = 1
	registry.registry.mu.Unlock()
	registry.registry.setDirect(func(d *direct) {
		d.verdicts = map[string]*registryv1.RecordedHeartbeat{"odd": {
			Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID, Field: "heartbeat.iis_bindings.bindings[2].site_name",
			Description: "heartbeat.iis_bindings.bindings[2].site_name: is odd",
		}}
	})

	_, err = client.Register(t.Context(), registration("bm-1", 2))
	if found := answered(t, "a second machine registers", err, fault.IdentityConflict); found.Agent != "bm-1" {
		t.Errorf("%+v", found)
	}
	_, err = client.Heartbeat(t.Context(), beat("BM-1", 2, 2))
	answered(t, "a second machine's heartbeat", err, fault.Unauthenticated)
	_, err = client.Heartbeat(t.Context(), beat("BM-9", 9, 1))
	answered(t, "an unknown agent's heartbeat", err, fault.NotRegistered)
	_, err = client.Register(t.Context(), registration("BUS-1", 3))
	answered(t, "a name known from the bus", err, fault.NotClaimable)
	_, err = client.Heartbeat(t.Context(), beat("ODD", 4, 1))
	found := answered(t, "an invalid heartbeat", err, fault.InvalidArgument)
	if len(found.Fields) != 1 || found.Fields[0] != (fault.Field{Pointer: "/heartbeat/iisBindings/bindings/2/siteName", Detail: "is odd"}) {
		t.Errorf("%+v", found)
	}
	if _, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 2)); err != nil {
		t.Errorf("the first machine is not heard any more: %v", err)
	}
}

func TestI17_ACallThatBreaksARuleNamesTheFieldAndReachesNoRegistry(t *testing.T) {
	registry := newServer(t)
	client := agents(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	for pointer, change := range map[string]func(*heartbeatv1.RegisterRequest){
		"/heartbeat":          func(r *heartbeatv1.RegisterRequest) { r.Heartbeat = nil },
		"/heartbeat/name":     func(r *heartbeatv1.RegisterRequest) { r.Heartbeat.Name = "" },
		"/heartbeat/sequence": func(r *heartbeatv1.RegisterRequest) { r.Heartbeat.Sequence = -1 },
		"/token":              func(r *heartbeatv1.RegisterRequest) { r.Token = "fake-and-short" },
		"/enrolmentKey":       func(r *heartbeatv1.RegisterRequest) { r.EnrolmentKey = "" },
		"/listEtag":           func(r *heartbeatv1.RegisterRequest) { r.ListEtag = strings.Repeat("e", 129) },
		"/protocols/min":      func(r *heartbeatv1.RegisterRequest) { r.Protocols = &heartbeatv1.ProtocolRange{Min: 3, Max: 1} },
		"/heartbeat/capabilities/0": func(r *heartbeatv1.RegisterRequest) {
			r.Heartbeat.Capabilities = []string{strings.Repeat("c", 65)}
		},
	} {
		request := registration("BM-1", 1)
		change(request)
		_, err := client.Register(t.Context(), request)
		found := answered(t, pointer, err, fault.InvalidArgument)
		if len(found.Fields) == 0 || found.Fields[0].Pointer != pointer {
			t.Errorf("%s: %+v", pointer, found)
		}
		if strings.Contains(err.Error(), "fake-") {
			t.Errorf("%s: the error shows a secret: %v", pointer, err)
		}
	}
	request := registration("BM-1", 1)
	request.Protocols = &heartbeatv1.ProtocolRange{Min: 2, Max: 3}
	_, err := client.Register(t.Context(), request)
	answered(t, "protocols apart", err, fault.ProtocolsApart)
	if got := registry.registry.directs(); len(got) != 0 {
		t.Errorf("the registry got %v", got)
	}
}

func TestAWrongEnrolmentKeyReachesNoRegistry(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	log := &lockedBuffer{}
	cfg.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := run(t, cfg)
	client := agents(t, r)
	wrong := registration("BM-1", 1)
	wrong.EnrolmentKey = "fake-wrong-key"
	_, err := client.Register(t.Context(), wrong)
	answered(t, "registering", err, fault.Unauthenticated)
	_, err = client.GetFailoverList(t.Context(), &heartbeatv1.GetFailoverListRequest{Name: "BM-1", EnrolmentKey: "fake-wrong-key"})
	answered(t, "asking for a list", err, fault.Unauthenticated)
	if got := registry.registry.directs(); len(got) != 0 {
		t.Errorf("the registry got %v", got)
	}
	if got := r.metric(t, `commandcenter_ingress_calls_total{method="Register",reason="UNAUTHENTICATED"}`); got != "1" {
		t.Errorf("counted %q", got)
	}
	// The file is read again by itself.
	check(t, os.WriteFile(cfg.Ingress.EnrolmentKeyFile, []byte("fake-wrong-key"), 0o600))
	eventually(t, "the new key is good", func() bool { _, err := client.Register(t.Context(), wrong); return err == nil })
	_, err = client.Heartbeat(t.Context(), beat("BM-1", 1, 2))
	check(t, err)
	r.end(t)
	if text := log.String(); strings.Contains(text, "fake-") || !strings.Contains(text, "grpc call") {
		t.Errorf("a secret is in the log, or nothing is:\n%s", text)
	}
}

// Nobody is told that a heartbeat is stored before it is.
func TestI7_NoDirectHeartbeatIsAnsweredBeforeItIsStored(t *testing.T) {
	registry := newServer(t)
	client := agents(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	arrived, store := make(chan struct{}, 10), make(chan struct{})
	registry.registry.set(func(ctx context.Context, _ *registryv1.RecordHeartbeatsRequest) error {
		arrived <- struct{}{}
		select {
		case <-store:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	ended := make(chan error, 1)
	go func() { _, err := client.Register(t.Context(), registration("BM-1", 1)); ended <- err }()
	<-arrived
	// The next one goes its whole way while the first waits, so an early answer would have come by now.
	go func() { _, err := client.Register(t.Context(), registration("BM-2", 2)); ended <- err }()
	<-arrived
	select {
	case err := <-ended:
		t.Fatalf("answered %v before anything was stored", err)
	default:
	}
	close(store)
	check(t, <-ended)
	check(t, <-ended)
	if got := registry.registry.agents(); got != 2 {
		t.Errorf("%d agents stored", got)
	}
}

// While the registry is down agents are asked to wait, not sent around the cloud, and lose nothing: what was not stored is not answered OK.
func TestI7_ARegistryThatIsDownCostsNoHeartbeat(t *testing.T) {
	for name, outage := range map[string]func(*testing.T, *server) (over func()){
		"stopped": func(t *testing.T, s *server) func() { s.stop(); return func() { s.start(t) } },
		"unavailable": func(_ *testing.T, s *server) func() {
			s.registry.set(unavailable)
			return func() { s.registry.set(nil) }
		},
		"broken": func(_ *testing.T, s *server) func() {
			s.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
				return status.Error(codes.Internal, "broken")
			})
			return func() { s.registry.set(nil) }
		},
		"refusing us": func(_ *testing.T, s *server) func() {
			s.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
				return fault.New(fault.Unauthenticated, "the bearer token is not known")
			})
			return func() { s.registry.set(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := newServer(t)
			r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
			client := agents(t, r)
			_, err := client.Register(t.Context(), registration("BM-1", 1))
			check(t, err)
			over := outage(t, registry)
			for sequence := range int64(5) {
				_, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 2+sequence))
				if delay := retryable(t, "during the outage", err).RetryDelay; delay < time.Second || delay > time.Minute {
					t.Errorf("asked to come again after %s", delay)
				}
			}
			_, err = client.Register(t.Context(), registration("BM-2", 2))
			retryable(t, "registering during the outage", err)
			pong, err := client.Ping(t.Context(), &heartbeatv1.PingRequest{})
			check(t, err)
			if pong.GetTakesAgents() {
				t.Error("says that it takes agents, which it could only ask to wait")
			}
			over()
			eventually(t, "taken", func() bool { _, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 9)); return err == nil })
			registry.registry.mu.Lock()
			defer registry.registry.mu.Unlock()
			if registry.registry.stored["BM-1"] != 9 {
				t.Errorf("stored: %v", registry.registry.stored)
			}
		})
	}
}

// One heartbeat that the registry fails at costs its neighbours nothing.
func TestAPoisonousHeartbeatBlocksNobody(t *testing.T) {
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	client := agents(t, r)
	_, err := client.Register(t.Context(), registration("GOOD", 1000))
	check(t, err)
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
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := fmt.Sprintf("BM-%d", i)
			switch i {
			case 20:
				name = "CRASH"
			case 30:
				name = "REFUSED"
			}
			_, err := client.Register(t.Context(), registration(name, i))
			switch found := fault.From(err); {
			case name == "CRASH" && (err == nil || found.Reason != fault.Internal):
				t.Errorf("%s: %v", name, err)
			case name == "REFUSED" && (err == nil || found.Reason != fault.InvalidArgument):
				t.Errorf("%s: %v", name, err)
			case strings.HasPrefix(name, "BM") && err != nil:
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if got := registry.registry.agents(); got != 49 {
		t.Errorf("%d agents stored", got)
	}
}

// Many agents at once are few calls, and each gets its own result.
func TestManyAgentsAreFewCalls(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	r := run(t, cfg)
	const many = 500
	clients := make([]heartbeatv1.AgentIngressClient, 10)
	for i := range clients {
		clients[i] = agents(t, r)
	}
	everyone := func(call func(i int, client heartbeatv1.AgentIngressClient)) {
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() { call(i, clients[i%len(clients)]) })
		}
		all.Wait()
	}
	everyone(func(i int, client heartbeatv1.AgentIngressClient) {
		if _, err := client.Register(t.Context(), registration(fmt.Sprintf("BM-%d", i), i)); err != nil {
			t.Errorf("BM-%d: %v", i, err)
		}
	})
	// The registry is slow for once, so that what comes meanwhile gathers.
	held, release := make(chan struct{}, 10), make(chan struct{})
	registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		held <- struct{}{}
		<-release
		return nil
	})
	registry.registry.mu.Lock()
	before := registry.registry.calls
	registry.registry.mu.Unlock()
	go func() { <-held; close(release) }()
	everyone(func(i int, client heartbeatv1.AgentIngressClient) {
		machine := i
		if i%50 == 0 {
			machine = many + i // another machine under the name
		}
		_, err := client.Heartbeat(t.Context(), beat(fmt.Sprintf("BM-%d", i), machine, 2))
		if wrong := i%50 == 0; (err != nil) != wrong || (wrong && fault.From(err).Reason != fault.Unauthenticated) {
			t.Errorf("BM-%d: %v", i, err)
		}
	})
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	if calls := registry.registry.calls - before; calls > many/10 {
		t.Errorf("%d calls for %d heartbeats", calls, many)
	}
	for i := range many {
		want := int64(2)
		if i%50 == 0 {
			want = 1
		}
		if got := registry.registry.stored[fmt.Sprintf("BM-%d", i)]; got != want {
			t.Errorf("BM-%d holds %d", i, got)
		}
	}
}

// More connects than are let in are told when to come, and those that are known are never told so.
func TestConnectsAreLimitedAndKnownAgentsAreNot(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	cfg.Ingress.ConnectsPerSecond = 1
	r := run(t, cfg)
	client := agents(t, r)
	_, err := client.Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	// However slow this machine is, of these not all have a second each.
	refused := 0
	for i := range 200 {
		request := beat("BM-1", 1, int64(i))
		if i%2 == 0 {
			request = beat(fmt.Sprintf("NEW-%d", i), i, 1)
		}
		_, err := client.Heartbeat(t.Context(), request)
		switch {
		case i%2 == 1:
			check(t, err)
		case fault.From(err).Reason == fault.Busy:
			refused++
			if delay := retryable(t, "a connect", err).RetryDelay; delay > time.Minute {
				t.Errorf("asked to come again after %s", delay)
			}
		}
	}
	if refused == 0 {
		t.Error("all were let in")
	}
	// A known name lets nobody in: an agent is known by its token.
	_, err = client.Heartbeat(t.Context(), beat("BM-1", 7, 1))
	if reason := fault.From(err).Reason; reason != fault.Busy && reason != fault.Unauthenticated {
		t.Errorf("another's name: %v", err)
	}
	for len(registry.registry.directs()) == 0 {
		t.Fatal("nothing reached the registry")
	}
	if got := r.metric(t, `commandcenter_ingress_busy_total{cause="connects"}`); got == "" || got == "0" {
		t.Errorf("counted %q", got)
	}
}

func TestAgentsOnTheBusGetTheirList(t *testing.T) {
	registry := newServer(t)
	list := &agentv1.FailoverList{Etag: "e-7", Servers: []*agentv1.ControlServerAddress{{Name: "cs-2", GrpcEndpoint: "cs-2:7422"}}}
	registry.cloud.set(func(c *fakeCloud) { c.lists = map[string]*agentv1.FailoverList{"BUS-1": list, "BUS-2": nil} })
	client := agents(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	ask := func(name, etag string) (*heartbeatv1.GetFailoverListResponse, error) {
		return client.GetFailoverList(t.Context(), &heartbeatv1.GetFailoverListRequest{Name: name, EnrolmentKey: enrolmentKey, ListEtag: etag})
	}
	got, err := ask("BUS-1", "e-6")
	check(t, err)
	if !proto.Equal(got.GetFailoverList(), list) {
		t.Errorf("got %v", got)
	}
	for name, etag := range map[string]string{"BUS-1": "e-7", "BUS-2": "e-1"} {
		got, err = ask(name, etag)
		check(t, err)
		if got.GetFailoverList() != nil {
			t.Errorf("%s got %v", name, got)
		}
	}
	_, err = ask("NOBODY", "")
	answered(t, "an unknown agent", err, fault.AgentNotFound)
	registry.cloud.set(func(c *fakeCloud) { c.listing = status.Error(codes.Unavailable, "down") })
	_, err = ask("BUS-1", "")
	retryable(t, "without the registry", err)
}
