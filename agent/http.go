package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	maxHTTPBody       = 1 << 20 // bytes
	maxHTTPHeader     = 16 << 10
	httpHeaderTimeout = 5 * time.Second
	httpReadTimeout   = 10 * time.Second // header and body
	httpIdleTimeout   = 2 * time.Minute
	closeNotice       = 20 * time.Millisecond
	httpStopTimeout   = 3 * time.Second // for answers on their way out; commands were drained before
)

// HTTPConfig serves POST /agent/v1/commands, GET /agent/v1/commands/{id} and GET /agent/v1/ping.
type HTTPConfig struct {
	// Listen is the TCP address, such as "127.0.0.1:7500". Port 0 takes a free one. An address beyond loopback needs
	// Token.
	Listen string
	// Token is the bearer token that commands, and questions about them, must carry; empty: none. Pings carry none: they tell a name and no more.
	Token string
	// TLS serves https; nil: http.
	TLS *tls.Config
	// AdvertisedURL is the base URL that heartbeats propose; http or https; at most 2,048 characters. Empty: derived
	// from the address listened on, or the machine's host name where that is every address.
	AdvertisedURL string
}

func (c *HTTPConfig) validate() (problems []error) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("agent config: HTTP.%s: %s", field, fmt.Sprintf(format, args...)))
	}
	addressHost, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("Listen", "%q is not host:port: %s", c.Listen, err)
	} else if !isLoopback(addressHost) && c.Token == "" {
		bad("Token", "is required to listen on %q, which is not a loopback address: whoever reached it could run commands", c.Listen)
	}
	if c.AdvertisedURL != "" {
		u, err := url.Parse(c.AdvertisedURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			bad("AdvertisedURL", "is not an http or https URL with a host")
		}
		if len(c.AdvertisedURL) > 2048 {
			bad("AdvertisedURL", "is longer than 2,048 characters")
		}
	}
	return problems
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *HTTPConfig) listen() (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("agent config: HTTP.Listen: %w", err)
	}
	if c.TLS != nil {
		listener = tls.NewListener(listener, c.TLS)
	}
	return listener, nil
}

// baseURL is the one proposed in heartbeats, given the address listened on.
func (c *HTTPConfig) baseURL(addr, hostname string) string {
	if c.AdvertisedURL != "" {
		return c.AdvertisedURL
	}
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if parsed := net.ParseIP(ip); parsed == nil || parsed.IsUnspecified() {
		ip = hostname
	}
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(ip, port)
}

// serveHTTP serves until the context ends, and then returns nil.
func (a *Agent) serveHTTP(ctx context.Context) error {
	server := &http.Server{
		Handler:           a.handler(ctx),
		ReadHeaderTimeout: httpHeaderTimeout, ReadTimeout: httpReadTimeout, IdleTimeout: httpIdleTimeout,
		MaxHeaderBytes: maxHTTPHeader,
		ErrorLog:       slog.NewLogLogger(a.cfg.Logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("agent: HTTP on %s broke down: %w", a.listener.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpStopTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	<-served // it says that it was shut down
	return nil
}

// handler serves commands and pings. Answers that Faults keep back are dropped when ctx ends.
func (a *Agent) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent/v1/ping", func(w http.ResponseWriter, r *http.Request) {
		e, _ := encodingOf(r.Header.Get("Accept"))
		a.write(w, http.StatusOK, e, a.ping())
	})
	mux.HandleFunc("POST /agent/v1/commands", func(w http.ResponseWriter, r *http.Request) { a.serveCommand(ctx, w, r) })
	mux.HandleFunc("GET /agent/v1/commands/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !a.cfg.HTTP.admits(w, r) {
			return
		}
		ask := &agentv1.GetCommand{CommandId: r.PathValue("id")}
		if err := protovalidate.Validate(ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e, _ := encodingOf(r.Header.Get("Accept"))
		a.write(w, http.StatusOK, e, a.executor.lookup(ask.GetCommandId()))
	})
	return mux
}

func (a *Agent) serveCommand(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	// A gateway sends the body only once it is asked for it (Expect: 100-continue), which the first read of it does. So the
	// command was still to be sent at this moment, wherever the head of its request had waited.
	receivedAt := now()
	a.counters.httpCommands.Add(1)
	if !a.cfg.HTTP.admits(w, r) {
		return
	}
	e, known := encodingOf(r.Header.Get("Content-Type"))
	if !known && r.Header.Get("Content-Type") != "" {
		http.Error(w, "Content-Type must be application/json or application/protobuf; nothing was done", http.StatusUnsupportedMediaType)
		return
	}
	cmd, status, err := readCommand(w, r, e)
	if err != nil {
		a.write(w, status, e, a.executor.refused(&agentv1.Command{},
			refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID, "%s", err)))
		return
	}
	if operationOf(cmd).write() {
		awaitClose(r.Context())
	}
	t := a.executor.begin(cmd, receivedAt)
	result := a.executor.complete(r.Context(), t)
	caller, cancel := t.answering(r.Context())
	defer cancel()
	if a.speak(caller, ctx) {
		out := http.NewResponseController(w)
		if deadline, ok := caller.Deadline(); ok {
			_ = out.SetWriteDeadline(deadline)
		}
		a.write(w, http.StatusOK, e, result)
		_ = out.Flush() // the process may end with the next line
	}
	a.executor.answered(t)
}

// awaitClose gives the server the moment it needs after a body's end to notice that the connection was closed. A
// request may have waited long before anybody here saw it, and only this tells.
func awaitClose(caller context.Context) {
	timer := time.NewTimer(closeNotice)
	defer timer.Stop()
	select {
	case <-caller.Done():
	case <-timer.C:
	}
}

// speak waits while Faults mute the agent, until the caller is gone or the agent stops.
func (a *Agent) speak(caller, agent context.Context) bool {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer context.AfterFunc(agent, cancel)()
	return a.cfg.Faults.speak(ctx)
}

func readCommand(w http.ResponseWriter, r *http.Request, e encoding) (*agentv1.Command, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHTTPBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body did not arrive whole: %w", err)
	}
	cmd, err := decodeCommand(e, body)
	return cmd, http.StatusBadRequest, err
}

// admits refuses a request without the token.
func (c *HTTPConfig) admits(w http.ResponseWriter, r *http.Request) bool {
	if c.authenticated(r) {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="agent"`)
	http.Error(w, "a bearer token is required, and this is not it; nothing was done", http.StatusUnauthorized)
	return false
}

// authenticated compares hashes, so that neither content nor length of the token shows in the time it takes.
func (c *HTTPConfig) authenticated(r *http.Request) bool {
	if c.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given, wanted := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(c.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], wanted[:]) == 1
}

func (a *Agent) write(w http.ResponseWriter, status int, e encoding, m proto.Message) {
	body, err := e.marshal(m)
	if err != nil {
		a.cfg.Logger.Error("an answer can't be encoded", "error", err)
		http.Error(w, "the answer can't be encoded; the command was run", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(e))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
