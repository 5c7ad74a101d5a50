package restserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve serves a handler that answers its path, with or without TLS.
func serve(t *testing.T, config *tls.Config) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: config, MaxHeaderBytes: 4 << 10, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, r.Proto+" "+r.URL.Path+" "+map[bool]string{true: "tls", false: "plain"}[r.TLS != nil])
	})}
	served := make(chan error, 1)
	watched := Listen(server, listener, slog.New(slog.DiscardHandler))
	go func() { served <- server.Serve(watched) }()
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr()
}

// certificate is one that net/http has for its own tests.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	defer lender.Close()
	pool := x509.NewCertPool()
	pool.AddCert(lender.Certificate())
	return &tls.Config{Certificates: lender.TLS.Certificates}, pool
}

// What net/http answers without asking a handler is a problem as well, with the status that it would have or one that says more.
func TestWhatNetHTTPAnswersIsAProblem(t *testing.T) {
	secure, pool := certificate(t)
	for kind, dial := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", serve(t, nil).String()) },
		"tls": func() (net.Conn, error) {
			return tls.Dial("tcp", serve(t, secure).String(), &tls.Config{RootCAs: pool, ServerName: "example.com"})
		},
		"http spoken to tls": func() (net.Conn, error) { return net.Dial("tcp", serve(t, secure).String()) },
	} {
		for request, want := range map[string]struct {
			status          int
			reason, pointer string
		}{
			"GET /a%zzb HTTP/1.1\r\nHost: x\r\n\r\n":         {400, "INVALID_ARGUMENT", "#/path"},
			"GET /a% HTTP/1.1\r\nHost: x\r\n\r\n":            {400, "INVALID_ARGUMENT", "#/path"},
			"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n":           {400, "INVALID_ARGUMENT", "#/path"},
			"GET /a?b= c HTTP/1.1\r\nHost: x\r\n\r\n":        {400, "INVALID_ARGUMENT", "#/query"},
			"GET / HTTP/1.1\r\n\r\n":                         {400, "INVALID_ARGUMENT", "#/Host"},
			"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":   {400, "INVALID_ARGUMENT", ""},
			"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n": {400, "INVALID_ARGUMENT", ""},
			"GET /\r\n\r\n":                                                                    {400, "INVALID_ARGUMENT", ""},
			"GET / HTTP/3.0\r\nHost: x\r\n\r\n":                                                {400, "INVALID_ARGUMENT", ""},
			"GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n":                             {400, "INVALID_ARGUMENT", "#/Expect"},
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n":                    {400, "INVALID_ARGUMENT", "#/Transfer-Encoding"},
			"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 16<<10) + "\r\n\r\n": {431, "HEADERS_TOO_LARGE", ""},
			"GET /" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":             {431, "HEADERS_TOO_LARGE", ""},
			"GET /" + strings.Repeat("y", 99<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":             {431, "HEADERS_TOO_LARGE", ""},
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":     {400, "INVALID_ARGUMENT", ""},
		} {
			if kind == "http spoken to tls" {
				want.status, want.reason, want.pointer = 400, "INVALID_ARGUMENT", ""
			}
			t.Run(kind+" "+request[:min(len(request), 40)], func(t *testing.T) {
				conn, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
				go func() { _, _ = io.WriteString(conn, request) }()
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				isProblem(t, response, want.status, want.reason, want.pointer)
			})
		}
	}
	for what, target := range map[string]string{"path": "/" + strings.Repeat("x", 16<<10), "header": "/"} {
		t.Run("h2 "+what, func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+serve(t, secure).String()+target, nil)
			if err != nil {
				t.Fatal(err)
			}
			if what == "header" {
				request.Header.Set("X-Long", strings.Repeat("x", 16<<10))
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if response.ProtoMajor != 2 {
				t.Errorf("it is %s", response.Proto)
			}
			isProblem(t, response, http.StatusRequestHeaderFieldsTooLarge, "HEADERS_TOO_LARGE", "")
		})
	}
}

func isProblem(t *testing.T, response *http.Response, status int, reason, pointer string) {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var got Problem
	if err != nil || json.Unmarshal(text, &got) != nil || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%s %v %s %v", response.Status, response.Header, text, err)
	}
	at := ""
	if len(got.Errors) > 0 {
		at = got.Errors[0].Pointer
	}
	if response.StatusCode != status || got.Status != status || got.Reason != reason || at != pointer ||
		got.Detail == "" || got.Instance != "urn:commandcenter:request:"+response.Header.Get("X-Request-Id") {
		t.Errorf("%s %s", response.Status, text)
	}
}

// Everything else goes through as it is: answers of handlers, whatever their status, over HTTP/1.1 and HTTP/2.
func TestHandlersAnswersGoThrough(t *testing.T) {
	secure, pool := certificate(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, ForceAttemptHTTP2: true}
	older := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com", NextProtos: []string{"http/1.1"}}}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(older.CloseIdleConnections)
	plain, encrypted := "http://"+serve(t, nil).String(), "https://"+serve(t, secure).String()
	for _, row := range []struct {
		transport *http.Transport
		base      string
		want      string
	}{
		{transport, plain, "HTTP/1.1 /teapot plain"}, {transport, encrypted, "HTTP/2.0 /teapot tls"}, {older, encrypted, "HTTP/1.1 /teapot tls"},
	} {
		for range 2 { // the second time over the same connection
			response, err := (&http.Client{Transport: row.transport}).Get(row.base + "/teapot")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if string(text) != row.want || response.StatusCode != http.StatusTeapot {
				t.Errorf("%s: %s %q", row.want, response.Status, text)
			}
		}
	}
}

// A caller who never ends its handshake delays neither other callers nor the stop of the server.
func TestAHandshakeThatStandsStillHoldsNothing(t *testing.T) {
	secure, pool := certificate(t)
	addr := serve(t, secure).String()
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
