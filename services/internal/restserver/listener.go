package restserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// handshakeTimeout is how long a TLS handshake may take, and how long the caller may take to read an answer that net/http makes.
const handshakeTimeout = 10 * time.Second

// headBytes is how much of what was read last is kept, to say what was wrong with a request line.
const headBytes = 2 << 10

// Listen makes a server serve a listener: what net/http itself answers, before a handler is asked, is a problem as well. It changes the
// server, whose Handler and MaxHeaderBytes must be set. A server with a TLSConfig serves TLS. Use its Serve with the listener that comes back, not ServeTLS.
func Listen(server *http.Server, listener net.Listener, logger *slog.Logger) net.Listener {
	server.DisableGeneralOptionsHandler = true // whose answer to OPTIONS * is no problem
	limitHeaders(server, logger)
	if server.TLSConfig == nil {
		return &plainListener{Listener: listener, logger: logger}
	}
	server.TLSConfig = server.TLSConfig.Clone()
	server.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
	secure := &tlsListener{
		Listener: listener, config: server.TLSConfig, logger: logger,
		ready: make(chan net.Conn), failed: make(chan error), ended: make(chan struct{}), shaking: map[net.Conn]bool{},
	}
	go secure.accept()
	return secure
}

type plainListener struct {
	net.Listener
	logger *slog.Logger
}

// Accept implements net.Listener.
func (l *plainListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: accepted, logger: l.logger}, nil
}

// tlsListener shakes hands itself, since net/http sees HTTP/2 only on a connection of crypto/tls, and the others are to be watched.
type tlsListener struct {
	net.Listener
	config *tls.Config
	logger *slog.Logger
	ready  chan net.Conn
	failed chan error
	ended  chan struct{}

	mu      sync.Mutex
	closed  bool
	shaking map[net.Conn]bool
}

func (l *tlsListener) accept() {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil { // net/http asks again after a while, where that may help
			select {
			case l.failed <- err:
				continue
			case <-l.ended:
				return
			}
		}
		l.mu.Lock()
		closed := l.closed
		if !closed {
			l.shaking[accepted] = true
		}
		l.mu.Unlock()
		if closed {
			accepted.Close()
			continue
		}
		go l.shake(accepted)
	}
}

func (l *tlsListener) shake(accepted net.Conn) {
	secure := tls.Server(accepted, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := secure.HandshakeContext(ctx)
	l.mu.Lock()
	delete(l.shaking, accepted)
	l.mu.Unlock()
	if err != nil {
		var notTLS tls.RecordHeaderError
		if errors.As(err, &notTLS) && notTLS.Conn != nil && looksLikeHTTP(notTLS.RecordHeader) {
			refuse(notTLS.Conn, l.logger, fault.New(fault.InvalidArgument, "this port speaks TLS: call it by https://. Nothing was done"))
		}
		l.logger.Debug("a TLS handshake failed", "peer", accepted.RemoteAddr().String(), "error", err.Error())
		accepted.Close()
		return
	}
	var ready net.Conn = secure
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		ready = &tlsConn{conn{Conn: secure, logger: l.logger}, secure}
	}
	select {
	case l.ready <- ready:
	case <-l.ended:
		secure.Close()
	}
}

// looksLikeHTTP reports whether what came instead of a TLS record is the beginning of a request.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case ready := <-l.ready:
		return ready, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; handshakes under way end with it.
func (l *tlsListener) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.ended)
	}
	for pending := range l.shaking {
		pending.Close()
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

// conn watches what net/http writes.
type conn struct {
	net.Conn
	logger *slog.Logger
	head   []byte // of what was read last
}

// tlsConn tells net/http of the TLS below.
type tlsConn struct {
	conn
	secure *tls.Conn
}

// ConnectionState is what net/http sets Request.TLS from.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// Read implements net.Conn.
func (c *conn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 1 { // net/http waits for the end of a connection with single bytes
		c.head = append(c.head[:0], into[:min(n, headBytes)]...)
	}
	return n, err
}

// Write implements net.Conn. What net/http answers itself comes in one piece, or begins with a status that no handler of ours has.
func (c *conn) Write(content []byte) (int, error) {
	if err := ownAnswer(content, c.head); err != nil {
		refuse(c.Conn, c.logger, err)
		return len(content), nil
	}
	return c.Conn.Write(content)
}

// CloseWrite is what net/http calls so that a caller who still sends can read the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

const (
	ownHeader   = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	expectation = "HTTP/1.1 417 "
)

// ownAnswer is the problem in the place of an answer that net/http makes without a handler; nil where it makes none. An answer of a
// handler always has more headers than net/http's own.
func ownAnswer(content, head []byte) *fault.Error {
	if len(content) < len(expectation) || !bytes.HasPrefix(content, []byte("HTTP/1.1 ")) || (content[9] != '4' && content[9] != '5') {
		return nil
	}
	if bytes.HasPrefix(content, []byte(expectation)) {
		return fault.Invalid("#/Expect", "must be 100-continue, or be left out")
	}
	line, _, own := bytes.Cut(content[:min(len(content), 512)], []byte(ownHeader))
	if !own {
		return nil
	}
	_, said, _ := strings.Cut(string(line), ": ")
	switch string(line[9:12]) {
	case strconv.Itoa(http.StatusRequestHeaderFieldsTooLarge):
		return errHeadersTooLarge
	case strconv.Itoa(http.StatusNotImplemented):
		return fault.Invalid("#/Transfer-Encoding", "must be chunked, or be left out")
	case strconv.Itoa(http.StatusHTTPVersionNotSupported):
		return fault.New(fault.InvalidArgument, "the request's version of HTTP is not spoken here; send HTTP/1.1 or HTTP/2. Nothing was done")
	}
	return malformed(said, head)
}

// malformed says what is wrong with a request that is no HTTP. Head is the beginning of what was read last, in most cases of it.
func malformed(said string, head []byte) *fault.Error {
	first, _, _ := bytes.Cut(head, []byte("\r\n"))
	if target := targetOf(string(first)); strings.HasPrefix(target, "/") {
		path, query, _ := strings.Cut(target, "?")
		switch _, err := url.PathUnescape(path); {
		case strings.ContainsFunc(path, unprintable):
			return fault.Invalid("#/path", "holds a blank or another character that must be escaped, a blank as %%20")
		case strings.ContainsFunc(query, unprintable):
			return fault.Invalid("#/query", "holds a blank or another character that must be escaped, a blank as %%20")
		case err != nil:
			return fault.Invalid("#/path", "has a %% that two hexadecimal digits do not follow; write a %% itself as %%25")
		}
	}
	if strings.Contains(strings.ToLower(said), "host header") {
		return fault.Invalid("#/Host", "must be there once, as the host that is called")
	}
	return fault.New(fault.InvalidArgument, "the request is not HTTP: its request line or one of its headers cannot be read. Nothing was done")
}

// targetOf is what stands in a request line between the method and the version of HTTP; empty where that is not there.
func targetOf(line string) string {
	_, rest, _ := strings.Cut(line, " ")
	if end := strings.LastIndex(rest, " HTTP/1."); end >= 0 {
		return rest[:end]
	}
	return ""
}

func unprintable(letter rune) bool { return letter <= ' ' || letter == 0x7f }

// refuse answers in net/http's place, which then closes the connection.
func refuse(to net.Conn, logger *slog.Logger, err *fault.Error) {
	id := grpcserver.NewRequestID("")
	header := http.Header{}
	problemHeader(header, err)
	header.Set("X-Request-Id", id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var body, answer bytes.Buffer
	WriteLine(&body, NewProblem(id, err))
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	fmt.Fprintf(&answer, "HTTP/1.1 %d %s\r\n", err.Reason.HTTPStatus(), http.StatusText(err.Reason.HTTPStatus()))
	_ = header.Write(&answer) // a buffer takes everything
	answer.WriteString("\r\n")
	answer.Write(body.Bytes())
	_ = to.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	_, _ = to.Write(answer.Bytes())
	logRefusal(logger, err, id, to.RemoteAddr().String())
}

// logRefusal logs a request that no handler saw.
func logRefusal(logger *slog.Logger, err *fault.Error, id, peer string) {
	logger.Info("rest request", "status", err.Reason.HTTPStatus(), "reason", string(err.Reason), "error", err.Error(), "request_id", id,
		"peer", peer)
}
