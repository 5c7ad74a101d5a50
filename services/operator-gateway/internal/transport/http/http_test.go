package http

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 20 * time.Second

const token = "not-a-real-token"

func newTransport(t testing.TB) *Transport {
	t.Helper()
	client, err := agenthttp.NewClient(agenthttp.DefaultClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	anonymous, err := agenthttp.NewClient(agenthttp.DefaultClientConfig().Anonymous())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	t.Cleanup(anonymous.CloseIdleConnections)
	return &Transport{Client: client, Anonymous: anonymous, Token: token}
}

func restart() *agentv1.Command {
	return &agentv1.Command{
		CommandId: uuid.NewString(), TargetAgent: "BM-0042", Budget: durationpb.New(time.Second),
		Operation: &agentv1.Command_RestartService{RestartService: &agentv1.RestartService{Service: "W3SVC"}},
	}
}

func target(url string) command.Target {
	return command.Target{Name: "BM-0042", Reported: "BM-0042", BaseURL: url, Verified: true}
}

func yes(context.Context) (time.Time, error) { return time.Now().Add(patience), nil }

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// agent serves commands, and answers each as told.
func agent(t testing.TB, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

// done is what an agent answers that did what it was told.
func done(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	cmd := &agentv1.Command{}
	if err := protojson.Unmarshal(body, cmd); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, _ := protojson.Marshal(&agentv1.CommandResult{CommandId: cmd.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED})
	_, _ = w.Write(answer)
}

// notSent fails the test unless the error says that nothing was sent.
func notSent(t *testing.T, err error) *command.NotSent {
	t.Helper()
	var found *command.NotSent
	if !errors.As(err, &found) {
		t.Fatalf("%v does not say that nothing was sent", err)
	}
	return found
}

// inDoubt fails the test unless the error leaves open whether the command was sent.
func inDoubt(t *testing.T, err error) {
	t.Helper()
	var found *command.NotSent
	if err == nil || errors.As(err, &found) {
		t.Fatalf("%v does not leave in doubt whether the command was sent", err)
	}
}

func TestSendPostsTheCommand(t *testing.T) {
	var seen *http.Request
	server := agent(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(context.Background())
		done(w, r)
	})
	cmd := restart()
	result, err := newTransport(t).Send(within(t), target(server.URL+"/base/"), cmd, yes)
	if err != nil || result.GetCommandId() != cmd.GetCommandId() {
		t.Fatal(result, err)
	}
	if seen.Method != http.MethodPost || seen.URL.Path != "/base/agent/v1/commands" || seen.Header.Get("Content-Type") != "application/json" || seen.ContentLength <= 0 {
		t.Errorf("%s %s %v, %d bytes", seen.Method, seen.URL, seen.Header, seen.ContentLength)
	}
}

func TestTheCredentialGoesToVerifiedURLsOnly(t *testing.T) {
	var seen atomic.Value
	server := agent(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		done(w, r)
	})
	transport := newTransport(t)
	for verified, want := range map[bool]string{true: "Bearer " + token, false: ""} {
		to := target(server.URL)
		to.Verified = verified
		if _, err := transport.Send(within(t), to, restart(), yes); err != nil {
			t.Fatal(err)
		}
		if got := seen.Load(); got != want {
			t.Errorf("verified %v: the agent was sent %q", verified, got)
		}
	}
}

// dying answers the first request of each connection and then, when another request came in whole, closes without an answer:
// what a client sees that reuses a connection which its server just gave up.
func dying(t testing.TB, requests *atomic.Int64) string {
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
				reader := bufio.NewReader(conn)
				for first := true; ; first = false {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
					body, err := io.ReadAll(request.Body)
					if err != nil {
						return
					}
					requests.Add(1)
					if !first {
						return
					}
					cmd := &agentv1.Command{}
					_ = protojson.Unmarshal(body, cmd)
					answer := `{"commandId":"` + cmd.GetCommandId() + `","outcome":"OUTCOME_SUCCEEDED"}`
					response := &http.Response{
						StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(answer)), Body: io.NopCloser(strings.NewReader(answer)),
					}
					_ = response.Write(conn)
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	return "http://" + listener.Addr().String()
}

func TestI4_ACommandOnAReusedDeadConnectionIsNotSentAgain(t *testing.T) {
	var requests atomic.Int64
	url := dying(t, &requests)
	transport := newTransport(t)
	if _, err := transport.Send(within(t), target(url), restart(), yes); err != nil {
		t.Fatal(err)
	}
	_, err := transport.Send(within(t), target(url), restart(), yes)
	inDoubt(t, err)
	if got := requests.Load(); got != 2 {
		t.Fatalf("the agent got %d requests for 2 commands", got)
	}
	transport.Client.CloseIdleConnections()
}

// The same through net/http's own eyes: which requests it would send anew on its own.
func TestI4_TheRequestIsOneThatNetHTTPDoesNotReplay(t *testing.T) {
	_, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := (&delivery{body: newBody([]byte("{}")), stop: cancel}).request(t.Context(), "http://agent.example.test", yes)
	if err != nil {
		t.Fatal(err)
	}
	if request.GetBody != nil || request.Body == nil || request.Body == http.NoBody || request.Method != http.MethodPost {
		t.Error("net/http may send it again")
	}
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if request.Header.Get(header) != "" {
			t.Errorf("%s makes net/http send it again", header)
		}
	}
}

func TestI4_RedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var hits atomic.Int64
		other := agent(t, func(w http.ResponseWriter, r *http.Request) { hits.Add(1); done(w, r) })
		server := agent(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		result, err := newTransport(t).Send(within(t), target(server.URL), restart(), yes)
		if err != nil || result.GetOutcome() != agentv1.Outcome_OUTCOME_REFUSED || !strings.Contains(result.GetMessage(), "redirect") {
			t.Errorf("HTTP %d: %v, %v", status, result, err)
		}
		if hits.Load() != 0 {
			t.Errorf("HTTP %d was followed", status)
		}
	}
}

func TestNothingIsSentWithoutAConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	_ = listener.Close()
	_, err = newTransport(t).Send(within(t), target(url), restart(), yes)
	if found := notSent(t, err); !found.Unreachable || found.Reason != fault.AgentUnreachable || found.Expired {
		t.Errorf("%+v", found)
	}
}

func TestACallerWhoGoesAwayDisprovesNothing(t *testing.T) {
	// A listener whose backlog nobody takes from still connects, so the connection is held in the TLS handshake.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = newTransport(t).Send(ctx, target("https://"+listener.Addr().String()), restart(), yes)
	if found := notSent(t, err); found.Unreachable {
		t.Errorf("%+v", found)
	}
}

func TestI1_NothingIsWrittenWhenItMayNotGoAnyMore(t *testing.T) {
	var hits atomic.Int64
	server := agent(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			hits.Add(1)
		}
		done(w, r)
	})
	transport := newTransport(t)
	asked := 0
	no := func(context.Context) (time.Time, error) { asked++; return time.Time{}, &command.NotSent{Expired: true} }
	for range 20 {
		_, err := transport.Send(within(t), target(server.URL), restart(), no)
		if found := notSent(t, err); !found.Expired {
			t.Fatalf("%+v", found)
		}
	}
	server.Close() // waits for what it is doing
	if asked != 20 || hits.Load() != 0 {
		t.Fatalf("asked %d times; the agent got %d commands", asked, hits.Load())
	}
}

// An agent that stands still has a kernel that takes connections, and requests.
func TestI5_AnAgentThatDoesNotAskForTheCommandIsNotSentIt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads := make(chan *http.Request, 1)
	rest := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader := bufio.NewReader(conn)
		head, _ := http.ReadRequest(reader)
		heads <- head
		after, _ := io.ReadAll(reader) // until the gateway gives up
		rest <- after
	}()
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := newTransport(t).Send(ctx, target("http://"+listener.Addr().String()), restart(), yes)
		answered <- err
	}()
	if head := <-heads; head.Header.Get("Expect") != "100-continue" {
		t.Errorf("the head is %v", head.Header)
	}
	cancel() // its time is over
	if found := notSent(t, <-answered); found.Reason != fault.AgentUnreachable || found.Unreachable {
		t.Errorf("%+v", found)
	}
	if after := <-rest; len(after) != 0 {
		t.Errorf("it was sent %q", after)
	}
}

func TestI5_AnAgentThatAsksForTheCommandTooLateIsNotSentIt(t *testing.T) {
	var got atomic.Int64
	server := agent(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			got.Add(1)
		}
		done(w, r)
	})
	soon := func(context.Context) (time.Time, error) { return time.Now(), nil }
	_, err := newTransport(t).Send(within(t), target(server.URL), restart(), soon)
	if found := notSent(t, err); !found.Expired {
		t.Errorf("%+v", found)
	}
	server.Close() // waits for what it is doing
	if got.Load() != 0 {
		t.Error("it got the command")
	}
}

func TestStillIsAskedOnceThereIsAConnection(t *testing.T) {
	var accepted atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(done))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Store(true)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	transport := newTransport(t)
	asked := 0
	still := func(ctx context.Context) (time.Time, error) {
		asked++
		for !accepted.Load() && ctx.Err() == nil { // the server notices a little later
			time.Sleep(time.Millisecond)
		}
		return time.Now().Add(patience), ctx.Err()
	}
	for range 2 { // on a new connection, and on a kept one
		if _, err := transport.Send(within(t), target(server.URL), restart(), still); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Fatalf("asked %d times", asked)
	}
}

func TestI3_WhatWasWrittenIsInDoubt(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"closed without an answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		},
		"answers no JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"answers another's":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"commandId":"x"}`) },
		"answers too much":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswerBytes+1)) },
		"a proxy gave up on it":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) },
		"the agent fell over it": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"breaks off": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := agent(t, handle)
			_, err := newTransport(t).Send(within(t), target(server.URL), restart(), yes)
			inDoubt(t, err)
		})
	}
}

func TestI3_AnAgentThatNeverAnswersIsInDoubt(t *testing.T) {
	got, release := make(chan struct{}), make(chan struct{})
	server := agent(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(got)
		<-release
	})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-got; cancel() }()
	_, err := newTransport(t).Send(ctx, target(server.URL), restart(), yes)
	inDoubt(t, err)
}

func TestWhatRefusesTheRequestDidNothing(t *testing.T) {
	for status := range refusals {
		server := agent(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		result, err := newTransport(t).Send(within(t), target(server.URL), restart(), yes)
		if err != nil || result.GetOutcome() != agentv1.Outcome_OUTCOME_REFUSED || !strings.Contains(result.GetMessage(), "nothing was done") {
			t.Errorf("HTTP %d: %v, %v", status, result, err)
		}
	}
}

func TestI17_ABaseURLThatMayNotBeCalledIsRefusedWithItsRule(t *testing.T) {
	for url, rule := range map[string]string{
		"http://169.254.169.254":     "link-local",
		"http://[fd00:ec2::254]":     "metadata",
		"ftp://agent.example.test":   "http://",
		"http://a:b@agent.test":      "user info",
		"http://0.0.0.0:80":          "unspecified",
		"http://[fe80::1%25eth0]:80": "link-local",
	} {
		_, err := newTransport(t).Send(within(t), target(url), restart(), yes)
		if found := notSent(t, err); !strings.Contains(found.Error(), rule) || found.Unreachable {
			t.Errorf("%s: %v", url, found)
		}
	}
}

func TestManyAtOnceDoNotQueue(t *testing.T) {
	const many = 256
	var waiting sync.WaitGroup
	waiting.Add(many)
	all := make(chan struct{})
	go func() { waiting.Wait(); close(all) }()
	server := agent(t, func(w http.ResponseWriter, r *http.Request) {
		waiting.Done()
		<-all // nobody is answered before everybody was asked
		done(w, r)
	})
	transport := newTransport(t)
	var group sync.WaitGroup
	for range many {
		group.Go(func() {
			if _, err := transport.Send(within(t), target(server.URL), restart(), yes); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func BenchmarkSend(b *testing.B) {
	server := agent(b, done)
	transport, to := newTransport(b), target(server.URL)
	for b.Loop() {
		if _, err := transport.Send(context.Background(), to, restart(), yes); err != nil {
			b.Fatal(err)
		}
	}
}
