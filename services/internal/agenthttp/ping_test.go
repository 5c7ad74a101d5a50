package agenthttp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/services/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
	patience = 20 * time.Second
	// impatience is for what never comes.
	impatience = 500 * time.Millisecond
	token      = "not-a-real-token"
)

func pinger(t testing.TB, cfg ClientConfig) *http.Client {
	t.Helper()
	client, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// pinged pings BM-0042 with little time, if its answer never ends.
func pinged(t testing.TB, client *http.Client, timeout time.Duration, url string) Pong {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return Ping(ctx, client, token, "BM-0042", url)
}

func answering(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func TestPingReadsTheAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   Pong
	}{
		"its own name":         {200, `{"name":"BM-0042","bootId":"b","new":1}`, Pong{Succeeded: true, AnsweredAs: "BM-0042", Detail: `answers as "BM-0042"`}},
		"its name, other case": {200, `{"name":"bm-0042"}`, Pong{Succeeded: true, AnsweredAs: "bm-0042", Detail: `answers as "bm-0042"`}},
		"another name":         {200, `{"name":"BM-0043"}`, Pong{AnsweredAs: "BM-0043", Detail: `answers as "BM-0043", not as "BM-0042"`}},
		"no name":              {200, `{}`, Pong{Detail: `answers as "", not as "BM-0042"`}},
		"as much as may be":    {200, `{"name":"BM-0042"}` + strings.Repeat(" ", maxPongBytes-18), Pong{Succeeded: true, AnsweredAs: "BM-0042", Detail: `answers as "BM-0042"`}},
		"too much":             {200, `{"name":"BM-0042"}` + strings.Repeat(" ", maxPongBytes-17), Pong{Detail: "answers with more than 65536 bytes"}},
		"no content":           {204, "", Pong{Detail: "answers HTTP 204 instead of 200"}},
		"a redirect":           {302, "", Pong{Detail: "answers HTTP 302 instead of 200: it redirects, and redirects are not followed"}},
		"unauthorized":         {401, "", Pong{Detail: "answers HTTP 401 instead of 200: it does not accept our credential"}},
		"forbidden":            {403, "", Pong{Detail: "answers HTTP 403 instead of 200: it does not accept our credential"}},
		"an error":             {503, `{"name":"BM-0042"}`, Pong{Detail: "answers HTTP 503 instead of 200"}},
	} {
		t.Run(name, func(t *testing.T) {
			url := answering(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/base/agent/v1/ping" || r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			})
			if got := pinged(t, pinger(t, DefaultClientConfig()), patience, url+"/base/"); got != row.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPingTakesNothingButAPingResponse(t *testing.T) {
	for _, body := range []string{"", "<html>", "null", "[]", `"BM-0042"`, `{"name":42}`, `{"name":"BM-0042"`, `{"name":"BM-0042"}{}`, "{\"name\":\"BM-0042\xff\"}", strings.Repeat("[", 20_000)} {
		url := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		got := pinged(t, pinger(t, DefaultClientConfig()), patience, url)
		if got.Succeeded || got.Inconclusive || !strings.HasPrefix(got.Detail, "the answer is no PingResponse: ") {
			t.Errorf("%.20q: %+v", body, got)
		}
	}
}

func TestPingFollowsNoRedirect(t *testing.T) {
	var hits atomic.Int64
	other := answering(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		url := answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+r.URL.Path, status) })
		got := pinged(t, pinger(t, DefaultClientConfig()), patience, url)
		if got.Succeeded || !strings.Contains(got.Detail, fmt.Sprintf("HTTP %d instead of 200: it redirects", status)) {
			t.Errorf("%+v", got)
		}
	}
	if hits.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestPingWithoutATokenSendsNone(t *testing.T) {
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error(r.Header)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	got := Ping(t.Context(), pinger(t, DefaultClientConfig()), config.Secret(""), "BM-0042", url)
	if got.Detail != "answers HTTP 401 instead of 200: it does not accept our credential; no token was sent" {
		t.Errorf("%+v", got)
	}
}

// An answer without an end is read up to the bound, in its headers and in its body, and then its connection is closed.
func TestAnEndlessAnswerIsNotReadOn(t *testing.T) {
	for name, beginning := range map[string]string{
		"a body":           "HTTP/1.1 200 OK\r\n\r\n",
		"a body in chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
		"an error's body":  "HTTP/1.1 503 Service Unavailable\r\n\r\n",
		"headers":          "HTTP/1.1 200 OK\r\nX: ",
	} {
		t.Run(name, func(t *testing.T) {
			written := make(chan int64, 1)
			address := raw(t, func(conn net.Conn) {
				// Little is kept on the way, so that what the server wrote is about what was read of it.
				_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, beginning)
				n, _ := io.CopyN(conn, endless{}, enough)
				written <- n
			})
			// Its time does not end: nothing but the bound ends it.
			if got := Ping(t.Context(), pinger(t, DefaultClientConfig()), token, "BM-0042", "http://"+address); got.Succeeded || got.Inconclusive {
				t.Errorf("%+v", got)
			}
			select {
			case n := <-written:
				if n > 512<<10 {
					t.Errorf("%d bytes could be written", n)
				}
			case <-time.After(patience):
				t.Error("the connection was not closed")
			}
		})
	}
}

// enough is much more than may be read, and ends a test that reads on.
const enough = 64 << 20

type endless struct{}

func (endless) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = 'x'
	}
	return len(into), nil
}

// What answers there cannot make a detail long, or one that a message cannot carry.
func TestDetailsAreLegible(t *testing.T) {
	own := "x" + strings.Repeat("é", maxDetail)
	for name, serve := range map[string]func(net.Conn){
		"another, long name": says("HTTP/1.1 200 OK\r\n\r\n"+`{"name":"`+strings.Repeat("é", 20_000)+`"}`, closes),
		"its own, long name": says("HTTP/1.1 200 OK\r\n\r\n"+`{"name":"`+own+`"}`, closes),
		"a long line":        says(strings.Repeat("é\xff", 20_000)+"\r\n", closes),
	} {
		got := Ping(t.Context(), pinger(t, DefaultClientConfig()), token, own, "http://"+raw(t, serve))
		if got.Detail == "" || len(got.Detail) > maxDetail || !utf8.ValidString(got.Detail) {
			t.Errorf("%s: %d bytes: %q", name, len(got.Detail), got.Detail)
		}
	}
}

// A kept connection that its agent has closed meanwhile is no failure: it is asked on a new one.
func TestAPingOutlivesItsKeptConnection(t *testing.T) {
	var accepted atomic.Int64
	url := "http://" + raw(t, func(conn net.Conn) {
		accepted.Add(1)
		says("HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"name":"BM-0042"}`, closes)(conn)
	})
	client := pinger(t, DefaultClientConfig())
	for range 20 {
		if got := pinged(t, client, patience, url); !got.Succeeded {
			t.Fatalf("%+v", got)
		}
	}
	if accepted.Load() != 20 {
		t.Errorf("%d connections", accepted.Load())
	}
}
