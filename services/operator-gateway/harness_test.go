package operatorgateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

const (
	pending  = registryv1.RegistrationState_REGISTRATION_STATE_PENDING
	accepted = registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED
	rejected = registryv1.RegistrationState_REGISTRATION_STATE_REJECTED
)

// gateway is one that runs, on ports of its own.
type gateway struct {
	t    *testing.T
	at   Endpoints
	log  *logBuffer
	stop context.CancelFunc
	done chan error
}

type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *logBuffer) Write(content []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(content)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// startGateway runs one before a registry, without a bus unless the settings say otherwise.
func startGateway(t *testing.T, registry *fakeRegistry, edit func(*Config)) *gateway {
	t.Helper()
	g := &gateway{t: t, log: &logBuffer{}, done: make(chan error, 1)}
	cfg := DefaultConfig()
	cfg.REST.Listen, cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Registry.Target, cfg.HTTPOnly = registry.addr, true
	cfg.Logger = slog.New(slog.NewTextHandler(g.log, nil))
	ready := make(chan Endpoints, 1)
	cfg.Ready = func(at Endpoints) { ready <- at }
	if edit != nil {
		edit(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	go func() { g.done <- Run(ctx, cfg) }()
	select {
	case g.at = <-ready:
	case err := <-g.done:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.stop()
		if err := <-g.done; err != nil {
			t.Error(err)
		}
	})
	return g
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
	fields map[string]any
}

func (r reply) reason() string { reason, _ := r.fields["reason"].(string); return reason }

// do makes one call; headers come in pairs.
func (g *gateway) do(method, path, body string, headers ...string) reply {
	g.t.Helper()
	answered, err := g.try(method, path, body, headers...)
	check(g.t, err)
	return answered
}

func (g *gateway) try(method, path, body string, headers ...string) (reply, error) {
	request, err := http.NewRequest(method, "http://"+g.at.REST+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	answered := reply{status: response.StatusCode, header: response.Header, body: string(content)}
	_ = json.Unmarshal(content, &answered.fields)
	return answered, nil
}
