package agenthttp

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// raw serves connections without HTTP, until the test ends.
func raw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return listener.Addr().String()
}

// hang reads until the other side goes away.
func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// says answers anything with a text, and then what is done with the connection.
func says(text string, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, text)
		then(conn)
	}
}

func closes(net.Conn) {}

// reset closes without a farewell.
func reset(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }

// drip writes a byte now and then, without an end.
func drip(conn net.Conn) {
	for {
		if _, err := conn.Write([]byte{' '}); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPingSaysWhyNoAnswerCame(t *testing.T) {
	for name, row := range map[string]struct {
		serve   func(net.Conn)
		timeout time.Duration
		detail  string
	}{
		"hanging":                 {hang, impatience, "connected, but timed out before the answer began"},
		"hanging in the headers":  {says("HTTP/1.1 200 OK\r\nX: ", hang), impatience, "connected, but timed out before the answer began"},
		"hanging in the body":     {says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", hang), impatience, "timed out before the answer ended"},
		"dripping headers":        {says("HTTP/1.1 200 OK\r\nX: ", drip), impatience, "connected, but timed out before the answer began"},
		"dripping a body":         {says("HTTP/1.1 200 OK\r\n\r\n", drip), impatience, "timed out before the answer ended"},
		"closed when asked":       {says("", closes), patience, "the connection broke off before the answer's body: EOF"},
		"reset when asked":        {says("", reset), patience, "the connection broke off before the answer's body: "},
		"closed in the headers":   {says("HTTP/1.1 200 OK\r\nX: ", closes), patience, "the connection broke off before the answer's body: unexpected EOF"},
		"closed in the body":      {says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", closes), patience, "the answer broke off: unexpected EOF"},
		"reset in the body":       {says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", reset), patience, "the answer broke off: "},
		"another protocol":        {says("220 mail.example.test ESMTP\r\n", hang), patience, `does not answer in HTTP: malformed HTTP `},
		"garbage":                 {says("\x00\xff\xfe\r\n"+strings.Repeat("\xff", 9000)+"\r\n\r\n", closes), patience, "does not answer in HTTP: "},
		"endless headers":         {says("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 128<<10), hang), patience, "does not answer in HTTP: net/http: server response headers exceeded"},
		"a redirect to no URL":    {says("HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", closes), patience, "does not answer in HTTP: failed to parse Location"},
		"an error that broke off": {says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\n", closes), patience, "answers HTTP 503 instead of 200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pinged(t, pinger(t, DefaultClientConfig()), row.timeout, "http://"+raw(t, row.serve))
			got.Detail = strings.Replace(got.Detail, "net/http: HTTP/1.x transport connection broken: ", "", 1)
			if got.Succeeded || got.Inconclusive || !strings.HasPrefix(got.Detail, row.detail) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Whether such an agent, or the request, is first is a matter of chance; both ways it is told in words for people.
func TestPingSaysThatAnAgentDoesNotWaitForIt(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"closes": closes,
		"speaks": func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.test ESMTP\r\n"); hang(conn) },
	} {
		url := "http://" + raw(t, serve)
		for range 20 {
			got := pinged(t, pinger(t, DefaultClientConfig()), patience, url)
			brokeOff, noHTTP := strings.Contains(got.Detail, "broke off before the answer"), strings.Contains(got.Detail, "does not answer in HTTP")
			if got.Succeeded || got.Inconclusive || brokeOff == noHTTP || strings.ContainsAny(got.Detail, "%!") || strings.Contains(got.Detail, "idle") {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	var way progress
	way.connected.Store(true)
	if got := way.explain(t.Context(), errors.New("readLoopPeekFailLocked: %!w(<nil>)")); strings.ContainsAny(got.Detail, "%!") {
		t.Errorf("in words of net/http: %+v", got)
	}
}

func TestPingSaysWhyItCouldNotConnect(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, row := range map[string]struct {
		url, detail string
		timeout     time.Duration
	}{
		"nobody listens":         {"http://" + closed.Addr().String(), "connection refused", patience},
		"an unknown authority":   {secure.URL, "certificate signed by unknown authority", patience},
		"no TLS":                 {"https://" + raw(t, says("220 mail.example.test ESMTP\r\n", hang)), "does not look like a TLS handshake", patience},
		"HTTP in place of HTTPS": {strings.Replace(answering(t, func(http.ResponseWriter, *http.Request) {}), "http", "https", 1), "HTTP response to HTTPS client", patience},
		"a handshake that hangs": {"https://" + raw(t, hang), "timed out", impatience},
	} {
		t.Run(name, func(t *testing.T) {
			got := pinged(t, pinger(t, DefaultClientConfig()), row.timeout, row.url)
			if got.Succeeded || got.Inconclusive || !strings.HasPrefix(got.Detail, "cannot connect: ") || !strings.Contains(got.Detail, row.detail) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What is refused here, or fails here, is no word about the agent.
func TestI11_APingThatFailsOnOurSideShowsNothing(t *testing.T) {
	url := answering(t, func(http.ResponseWriter, *http.Request) {})
	elsewhere := DefaultClientConfig()
	elsewhere.AllowedNetworks = []string{"192.0.2.0/24"}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	lacking := pinger(t, DefaultClientConfig())
	lacking.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
	}
	for name, row := range map[string]struct {
		ctx         context.Context
		client      *http.Client
		url, detail string
	}{
		"a base URL that is refused":   {t.Context(), pinger(t, DefaultClientConfig()), "http://169.254.169.254/latest", "the base URL must not lead to 169.254.169.254: link-local"},
		"an address that is refused":   {t.Context(), pinger(t, elsewhere), url, "its address is not allowed: 127.0.0.1 is in none of the allowed networks"},
		"a caller who does not wait":   {gone, pinger(t, DefaultClientConfig()), url, "was not waited for any longer"},
		"a machine without files left": {t.Context(), lacking, url, "cannot connect: this side has run out of files"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Ping(row.ctx, row.client, token, "BM-0042", row.url)
			if got.Succeeded || !got.Inconclusive || !strings.HasPrefix(got.Detail, row.detail) {
				t.Errorf("%+v", got)
			}
		})
	}
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// nameServer connects to a name server that answers each question with the code.
func nameServer(t testing.TB, code byte) dial {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		message := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(message)
			if err != nil {
				return
			}
			message[2], message[3] = 0x81, 0x80|code // now it is a response (RFC 1035, 4.1.1)
			_, _ = server.WriteTo(message[:n], from)
		}
	})
	t.Cleanup(func() { server.Close(); running.Wait() })
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}
}

func TestI11_AResolverThatFailsShowsNothing(t *testing.T) {
	hanging := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, row := range map[string]struct {
		dial         dial
		timeout      time.Duration
		inconclusive bool
	}{
		"no such name":  {nameServer(t, 3), patience, false},
		"it fails":      {nameServer(t, 2), patience, true},
		"it is refused": {nameServer(t, 5), patience, true},
		"it hangs":      {hanging, impatience, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := pinger(t, DefaultClientConfig())
			dialer := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: row.dial}, Timeout: 2 * row.timeout}
			client.Transport.(*http.Transport).DialContext = dialer.DialContext
			got := pinged(t, client, row.timeout, "http://agent.example.test.")
			if got.Succeeded || got.Inconclusive != row.inconclusive || !strings.HasPrefix(got.Detail, "cannot connect: ") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// interrupted is a body whose reader is told to stop.
type interrupted struct{ stop context.CancelFunc }

func (i interrupted) Read([]byte) (int, error) { i.stop(); return 0, context.Canceled }
func (interrupted) Close() error               { return nil }

func (i interrupted) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: i, Request: r}, nil
}

func TestI11_ABodyThatIsNotWaitedForShowsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := Ping(ctx, &http.Client{Transport: interrupted{cancel}}, token, "BM-0042", "http://bm-0042")
	if !got.Inconclusive || got.Detail != "was not waited for any longer" {
		t.Errorf("%+v", got)
	}
}
