package ingress

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// hangingLists never answers.
type hangingLists struct{}

func (hangingLists) GetFailoverList(ctx context.Context, _ *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// An agent waits 5 s, less than a call to the registry may take. Busy is not down: it is told so before it gives up.
func TestAHangingRegistryIsBusyBeforeTheAgentGivesUp(t *testing.T) {
	registry := &fakeRegistry{}
	registry.set(func(ctx context.Context, _ []*registryv1.ObservedHeartbeat) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	})
	during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
		key, err := OpenEnrolmentKey("key", "", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s := NewService(Options{
			Name: "cs-1", Protocols: Protocols{Min: 1, Max: 1}, HeartbeatInterval: 30 * time.Second, ConnectsPerSecond: 200, Key: key, Gathering: g,
			Lists: hangingLists{}, Evidence: NewEvidence(), Metrics: NewMetrics(prometheus.NewRegistry()),
			Membership: NewMembership(nil, &registryv1.RenewControlServerRequest{}, time.Minute, 0, slog.New(slog.DiscardHandler)),
		})
		for what, call := range map[string]func(context.Context) error{
			"Register": func(ctx context.Context) error {
				_, err := s.Register(ctx, &heartbeatv1.RegisterRequest{Heartbeat: &agentv1.Heartbeat{Name: "a"}})
				return err
			},
			"Heartbeat": func(ctx context.Context) error {
				_, err := s.Heartbeat(ctx, &heartbeatv1.HeartbeatRequest{Heartbeat: &agentv1.Heartbeat{Name: "a"}})
				return err
			},
			"GetFailoverList": func(ctx context.Context) error {
				_, err := s.GetFailoverList(ctx, &heartbeatv1.GetFailoverListRequest{Name: "a"})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := call(ctx)
			if gaveUp := ctx.Err(); gaveUp != nil {
				t.Errorf("%s: the agent gave up before it was answered", what)
			}
			cancel()
			if got := fault.From(err); got.Reason != fault.Busy || got.RetryDelay < minBusyDelay || got.RetryDelay > maxBusyDelay {
				t.Errorf("%s: answered %v, in %s", what, err, got.RetryDelay)
			}
		}
	})
}
