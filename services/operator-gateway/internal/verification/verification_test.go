package verification

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/aside"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	succeeded = registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED
	failed    = registryv1.VerificationOutcome_VERIFICATION_OUTCOME_FAILED
)

// registry notes what is recorded, and hands out what is due.
type registry struct {
	mu       sync.Mutex
	recorded []*registryv1.RecordHttpVerificationRequest
	claims   []*registryv1.ClaimHttpVerificationsRequest
	due      int
	agent    *registryv1.Agent
	hold     chan struct{} // recording waits for it, if there is one
}

func (r *registry) RecordHttpVerification(_ context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = append(r.recorded, request)
	return &registryv1.RecordHttpVerificationResponse{Recorded: true}, nil
}

func (r *registry) ClaimHttpVerifications(_ context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims = append(r.claims, request)
	response := &registryv1.ClaimHttpVerificationsResponse{}
	for range min(r.due, int(request.GetLimit())) {
		response.Agents = append(response.Agents, r.agent)
		r.due--
	}
	return response, nil
}

func (r *registry) counts() (claims, due, recorded int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.claims), r.due, len(r.recorded)
}

func verifier(t testing.TB, r *registry) *Verifier {
	t.Helper()
	client, err := agenthttp.NewClient(agenthttp.DefaultClientConfig().Anonymous())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &Verifier{Client: client, Registry: r, Logger: slog.New(slog.DiscardHandler), RepeatInterval: 6 * time.Hour}
}

func answering(t testing.TB, status int, body string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/agent/v1/ping" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestVerifyRecordsWhatThePingShows(t *testing.T) {
	for name, row := range map[string]struct {
		status  int
		body    string
		outcome registryv1.VerificationOutcome
		detail  string
	}{
		"its own name": {200, `{"name":"BM-0042","bootId":"b","new":1}`, succeeded, `answers as "BM-0042"`},
		"another name": {200, `{"name":"BM-0043"}`, failed, `answers as "BM-0043", not as "BM-0042"`},
		"an error":     {503, `{"name":"BM-0042"}`, failed, "HTTP 503"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &registry{}
			url := answering(t, row.status, row.body).URL
			pong, recorded, err := verifier(t, r).Verify(t.Context(), &registryv1.Agent{Name: "BM-0042", HttpBaseUrl: url})
			if len(r.recorded) == 1 && r.recorded[0].GetAge().AsDuration() <= 0 {
				t.Error("it does not tell how old its pong is")
			}
			if err != nil || !recorded.GetRecorded() || len(r.recorded) != 1 {
				t.Fatalf("%v, %v, %v", err, recorded, r.recorded)
			}
			got := r.recorded[0]
			if got.GetOutcome() != row.outcome || pong.Succeeded != (row.outcome == succeeded) || !strings.Contains(got.GetDetail(), row.detail) ||
				got.GetName() != "BM-0042" || got.GetHttpBaseUrl() != url {
				t.Errorf("recorded %v", got)
			}
		})
	}
}

func TestVerifyDoesNotCallForbiddenAddresses(t *testing.T) {
	r := &registry{}
	pong, _, err := verifier(t, r).Verify(t.Context(), &registryv1.Agent{Name: "BM-0042", HttpBaseUrl: "http://169.254.169.254/latest"})
	if err != nil || pong.Succeeded || !strings.Contains(pong.Detail, "link-local") {
		t.Errorf("%+v, %v", pong, err)
	}
}

// refusing is a client's transport that connects nowhere.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

func TestRepeatTakesAllThatIsDueEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{due: 2*claimLimit + 5, agent: &registryv1.Agent{Name: "BM-0042", HttpBaseUrl: "http://agent.example.test"}}
		v := &Verifier{Client: &http.Client{Transport: refusing{}}, Registry: r, Logger: slog.New(slog.DiscardHandler), RepeatInterval: 6 * time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.Repeat(ctx) }()
		time.Sleep(claimInterval/2 - time.Millisecond)
		synctest.Wait()
		if claims, _, _ := r.counts(); claims != 0 {
			t.Fatal("it claims at once; all replicas that start together would")
		}
		time.Sleep(claimInterval + time.Millisecond)
		synctest.Wait()
		if _, due, recorded := r.counts(); due != 0 || recorded != 2*claimLimit+5 {
			t.Fatalf("%d are still due, %d were recorded", due, recorded)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := r.claims[0]; got.GetRepeatInterval().AsDuration() != 6*time.Hour || got.GetClaimTimeout().AsDuration() <= pingTimeout {
			t.Errorf("%v", got)
		}
	})
}

func TestDisproveIsBoundedAndDoesNotBlock(t *testing.T) {
	r := &registry{hold: make(chan struct{})}
	v := verifier(t, r)
	for range 10 * aside.Most { // none of them ends before the last was asked for
		v.Disprove("BM-0042", "http://agent.example.test", "refused")
	}
	close(r.hold)
	v.disproofs.Wait()
	if len(r.recorded) != aside.Most || r.recorded[0].GetOutcome() != failed || r.recorded[0].GetDetail() != "refused" {
		t.Errorf("recorded %d", len(r.recorded))
	}
	v.Disprove("BM-0042", "http://agent.example.test", "refused")
	v.disproofs.Wait()
	if len(r.recorded) != aside.Most+1 {
		t.Error("it records nothing any more")
	}
}
