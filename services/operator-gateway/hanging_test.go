package operatorgateway

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// tcpOnly takes connections and never says a word.
func tcpOnly(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var ended sync.WaitGroup
	ended.Go(func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, one := range held {
					one.Close()
				}
				return
			}
			held = append(held, conn)
		}
	})
	t.Cleanup(func() { check(t, listener.Close()); ended.Wait() })
	return listener.Addr().String()
}

// http2Only speaks HTTP/2, takes every call, and answers none.
func http2Only(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return status.FromContextError(stream.Context().Err()).Err()
	}))
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); ended.Wait() })
	return listener.Addr().String()
}

// mostRead is how long a read of a service that hangs may take, and mostLookup the lookup of a command, with the margin of a busy machine.
// The hang itself would take 10 s and more.
const mostRead, mostLookup = 8 * time.Second, 6 * time.Second

// A registry or an availability service that hangs is told of like one that is down, soon, and nothing is sent.
func TestServicesThatHangAreSaidToBeUnavailable(t *testing.T) {
	for how, listen := range map[string]func(*testing.T) string{"TCP only": tcpOnly, "HTTP/2 only": http2Only} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			agent := startAgent(t, "BM-01")
			agent.answering(func(context.Context, *agentv1.Command) *agentv1.CommandResult {
				t.Error("a command was sent")
				return nil
			})
			g := startGateway(t, &fakeRegistry{addr: listen(t)}, func(c *Config) { c.Availability.Target = listen(t) })
			t.Run("calls", func(t *testing.T) {
				for call, row := range map[string]struct {
					most   time.Duration
					reason string
				}{
					"GET /api/agents":                             {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/config/agents":                      {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/config/servers":                     {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/config/control-servers":             {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/agents/BM-01/route":                 {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/config/agents/BM-01":                {mostRead, "REGISTRY_UNAVAILABLE"},
					"GET /api/agents/BM-01/services":              {mostLookup, "REGISTRY_UNAVAILABLE"},
					"POST /api/agents/BM-01/services/W3SVC/start": {mostLookup, "REGISTRY_UNAVAILABLE"},
					"GET /api/availability/overview":              {mostRead, "AVAILABILITY_UNAVAILABLE"},
					"GET /api/availability/servers":               {mostRead, "AVAILABILITY_UNAVAILABLE"},
				} {
					t.Run(call, func(t *testing.T) {
						t.Parallel()
						method, path, _ := strings.Cut(call, " ")
						began := time.Now()
						answered := g.do(method, path, "")
						if took := time.Since(began); took > row.most {
							t.Errorf("answered after %s", took)
						}
						if answered.status != 503 || answered.reason() != row.reason || answered.header.Get("Retry-After") == "" {
							t.Errorf("%d %s", answered.status, answered.body)
						}
					})
				}
				t.Run("watch", func(t *testing.T) {
					t.Parallel()
					watch, err := operatorv1.NewAvailabilityConfigClient(g.dial()).WatchAvailability(t.Context(), &operatorv1.WatchAvailabilityRequest{})
					check(t, err)
					began := time.Now()
					_, err = watch.Recv()
					if took := time.Since(began); took > mostRead || status.Code(err) != codes.Unavailable || fault.From(err).Reason != fault.AvailabilityUnavailable {
						t.Errorf("after %s: %v", took, err)
					}
				})
			})
			if text := g.verbose(); g.readyz() != 200 || !strings.Contains(text, "[-] registry: ") || !strings.Contains(text, "[-] availability service: ") {
				t.Errorf("%d %s", g.readyz(), text)
			}
		})
	}
}
