package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "not-a-real-token"

// fleet answers pings in place of the agents, and counts them. It also counts what goes on to real ones.
type fleet struct {
	serve http.RoundTripper

	mu             sync.Mutex
	asked          []string // hosts, in their order
	inFlight, most int
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Host)
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
	}()
	return f.serve.RoundTrip(r)
}

// serving is what agents do with a ping.
type serving func(*http.Request) (*http.Response, error)

func (s serving) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// answers says the agent's name, which is its host's.
func answers(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"name":%q}`, r.URL.Host))), Request: r,
	}, nil
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func refuses(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// prober probes agents that all do the same.
func prober(serve serving) (*Prober, *fleet) {
	f := &fleet{serve: serve}
	client := &http.Client{Transport: f}
	return &Prober{Client: client, Anonymous: client, Metrics: NewMetrics(prometheus.NewRegistry())}, f
}

func target(key int) Target {
	return Target{ServerKey: int64(key), Agent: fmt.Sprintf("bm-%04d", key), BaseURL: fmt.Sprintf("http://bm-%04d", key)}
}

func targets(n int) []Target {
	all := make([]Target, n)
	for i := range all {
		all[i] = target(i)
	}
	return all
}

// count counts the probes of a round by outcome, and fails the test unless each target has one.
func count(t testing.TB, round Round, targets []Target) map[verdict.Outcome]int {
	t.Helper()
	counted := map[verdict.Outcome]int{}
	for _, target := range targets {
		probe, found := round[target.Subject()]
		if !found {
			t.Errorf("%s has no probe", target.Agent)
		}
		counted[probe.Outcome]++
	}
	if len(round) != len(targets) {
		t.Errorf("%d probes of %d targets", len(round), len(targets))
	}
	return counted
}

func TestTheCredentialGoesToVerifiedURLsOnly(t *testing.T) {
	seen := map[string]string{}
	note := func(client string) *http.Client {
		return &http.Client{Transport: serving(func(r *http.Request) (*http.Response, error) {
			seen[r.URL.Host] = client + " " + r.Header.Get("Authorization")
			return answers(r)
		})}
	}
	p := &Prober{Client: note("client"), Anonymous: note("anonymous"), Token: token, Metrics: NewMetrics(prometheus.NewRegistry())}
	verified := target(1)
	verified.Verified = true
	for _, target := range []Target{verified, target(2)} {
		if got := p.probe(t.Context(), target); got.Outcome != verdict.Succeeded || got.Error != "" {
			t.Errorf("%+v", got)
		}
	}
	if seen["bm-0001"] != "client Bearer "+token || seen["bm-0002"] != "anonymous " {
		t.Error(seen)
	}
}

func TestI11_OnlyWhatShowsSomethingIsAFailure(t *testing.T) {
	for name, row := range map[string]struct {
		pong agenthttp.Pong
		want verdict.Probe
	}{
		"it answered":        {agenthttp.Pong{Succeeded: true, Detail: "answers"}, verdict.Probe{Outcome: verdict.Succeeded}},
		"it did not":         {agenthttp.Pong{Detail: "does not"}, verdict.Probe{Outcome: verdict.Failed, Error: "does not"}},
		"it shows nothing":   {agenthttp.Pong{Inconclusive: true, Detail: "ours"}, verdict.Probe{Outcome: verdict.Unfinished, Error: "ours"}},
		"nothing was learnt": {agenthttp.Pong{}, verdict.Probe{Outcome: verdict.Failed}},
	} {
		if got := judge(row.pong); got != row.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	refused := Target{ServerKey: 1, Agent: "bm-0001", BaseURL: "http://169.254.169.254"}
	p, f := prober(answers)
	if got := p.probe(t.Context(), refused); got.Outcome != verdict.Unfinished || !strings.Contains(got.Error, "link-local") || len(f.asked) != 0 {
		t.Errorf("%+v, asked %v", got, f.asked)
	}
}

func TestAnotherSubjectIsAnother(t *testing.T) {
	is := Target{ServerKey: 1, Agent: "BM-0001", BaseURL: "http://bm-0001"}
	for name, row := range map[string]struct {
		change func(*Target)
		same   bool
	}{
		"another server":          {func(t *Target) { t.ServerKey = 2 }, false},
		"another agent":           {func(t *Target) { t.Agent = "BM-0002" }, false},
		"another URL":             {func(t *Target) { t.BaseURL = "https://bm-0001" }, false},
		"another spelling":        {func(t *Target) { t.Agent = "bm-0001" }, true},
		"its URL is verified now": {func(t *Target) { t.Verified = true }, true},
	} {
		other := is
		row.change(&other)
		if (other.Subject() == is.Subject()) != row.same {
			t.Errorf("%s: %+v", name, other.Subject())
		}
	}
}
