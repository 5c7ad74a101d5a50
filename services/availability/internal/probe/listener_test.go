package probe

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
)

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 20 * time.Second

// networked probes over real connections, which are counted as well.
func networked(t testing.TB) (*Prober, *fleet) {
	t.Helper()
	client, err := agenthttp.NewClient(agenthttp.DefaultClientConfig().Anonymous())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	f := &fleet{serve: client.Transport}
	counted := &http.Client{Transport: f, CheckRedirect: client.CheckRedirect}
	return &Prober{Client: counted, Anonymous: counted, Metrics: NewMetrics(prometheus.NewRegistry())}, f
}

// listen serves connections until the test ends.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return "http://" + listener.Addr().String()
}

// silent reads until the other side goes away.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func handled(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// named answers pings with a name.
func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"name":%q}`, name) }
}

// drip sends a byte now and then, without an end.
func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = w.Write([]byte{' '})
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Millisecond)
	}
}

// flood sends much more than is taken.
func flood(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<20)) }

// atOnce starts a probe of each URL without delay.
func atOnce(urls map[string]string) ([]start, []string) {
	starts, names := make([]start, 0, len(urls)), make([]string, 0, len(urls))
	for name, url := range urls {
		starts, names = append(starts, start{Target: Target{ServerKey: int64(len(starts)), Agent: "BM-0042", BaseURL: url}}), append(names, name)
	}
	return starts, names
}

func TestProbesOfAllKindsOfAgents(t *testing.T) {
	secure := httptest.NewUnstartedServer(named("BM-0042"))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	other := handled(t, named("BM-0042"))
	starts, kinds := atOnce(map[string]string{
		"its name":             other,
		"another name":         handled(t, named("BM-0043")),
		"refuses":              "http://" + refusing.Addr().String(),
		"redirects":            handled(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+r.URL.Path, http.StatusFound) }),
		"is unwell":            handled(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"floods":               handled(t, flood),
		"speaks something":     listen(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.test ESMTP\r\n"); silent(conn) }),
		"an unknown authority": secure.URL,
	})
	want := map[string]string{
		"another name": "answers as", "refuses": "connection refused", "redirects": "HTTP 302", "is unwell": "HTTP 503", "floods": "more than 65536 bytes",
		"speaks something": "does not answer in HTTP", "an unknown authority": "unknown authority",
	}
	p, _ := networked(t)
	p.Timeout = patience
	for i, probe := range p.run(t.Context(), starts) {
		words, fails := want[kinds[i]]
		switch {
		case !fails && probe != verdict.Probe{Outcome: verdict.Succeeded}:
			t.Errorf("%s: %+v", kinds[i], probe)
		case fails && (probe.Outcome != verdict.Failed || !strings.Contains(probe.Error, words)):
			t.Errorf("%s: %+v", kinds[i], probe)
		}
	}
}

func TestProbesOfAgentsThatDoNotEndTimeOut(t *testing.T) {
	starts, kinds := atOnce(map[string]string{
		"hangs":                listen(t, silent),
		"hangs in a handshake": strings.Replace(listen(t, silent), "http", "https", 1),
		"drips":                handled(t, drip),
		"drips no HTTP": listen(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			for _, err := conn.Write([]byte{'H'}); err == nil; _, err = conn.Write([]byte{'T'}) {
				time.Sleep(time.Millisecond)
			}
		}),
	})
	p, _ := networked(t)
	p.Timeout = 200 * time.Millisecond
	for i, probe := range p.run(t.Context(), starts) {
		if probe.Outcome != verdict.Failed || !strings.Contains(probe.Error, "timed out") {
			t.Errorf("%s: %+v", kinds[i], probe)
		}
	}
}

// However many hang, no more are in flight than may be, and the round is cut with all of them unknown.
func TestI11_ARoundOverTheNetworkIsCut(t *testing.T) {
	p, f := networked(t)
	p.Timeout = patience
	all := targets(500)
	url := listen(t, silent)
	for i := range all {
		all[i].BaseURL = url
	}
	if counted := count(t, p.Round(t.Context(), all, 500*time.Millisecond), all); counted[verdict.Unfinished] != len(all) {
		t.Errorf("outcomes %v", counted)
	}
	if f.most > defaultParallel || f.inFlight != 0 || testutil.ToFloat64(p.Metrics.InFlight) != 0 {
		t.Errorf("%d were in flight, %d are", f.most, f.inFlight)
	}
}
