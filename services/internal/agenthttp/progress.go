package agenthttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"
)

// progress is how far a ping came.
type progress struct {
	unresolved atomic.Bool // its host is still looked up, or the resolver failed; a name that does not exist is an answer
	connected  atomic.Bool
	answering  atomic.Bool // something came back, after it was asked
}

// follow notes the progress of what is asked with the context it gives. A second connection, where a kept one was dead, starts anew.
func (p *progress) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { p.connected.Store(false) },
		GotConn:              func(httptrace.GotConnInfo) { p.connected.Store(true) },
		GotFirstResponseByte: func() { p.answering.Store(true) },
		DNSStart:             func(httptrace.DNSStartInfo) { p.unresolved.Store(true) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			var failed *net.DNSError
			p.unresolved.Store(info.Err != nil && !(errors.As(info.Err, &failed) && failed.IsNotFound))
		},
	})
}

// explain says why no answer came.
func (p *progress) explain(ctx context.Context, err error) Pong {
	var refused *AddressError
	switch {
	case errors.As(err, &refused):
		return Pong{Inconclusive: true, Detail: "its address is not allowed: " + refused.Error()}
	case cancelled(ctx):
		return Pong{Inconclusive: true, Detail: "was not waited for any longer"}
	case !p.connected.Load() && p.unresolved.Load():
		return Pong{Inconclusive: true, Detail: "cannot connect: its host could not be looked up: " + cause(err)}
	case exhausted(err):
		return Pong{Inconclusive: true, Detail: "cannot connect: this side has run out of files, ports or memory: " + cause(err)}
	case !p.connected.Load() && timedOut(err):
		return Pong{Detail: "cannot connect: timed out"}
	case !p.connected.Load():
		return Pong{Detail: "cannot connect: " + cause(err)}
	case timedOut(err):
		return Pong{Detail: "connected, but timed out before the answer began"}
	case brokenOff(err):
		return Pong{Detail: "the connection broke off before the answer's body: " + cause(err)}
	case !p.answering.Load(): // net/http has no clear words for that
		return Pong{Detail: "does not answer in HTTP: it closes the connection, or speaks, before it is asked"}
	}
	return Pong{Detail: "does not answer in HTTP: " + cause(err)}
}

// unread says why an answer's body could not be read.
func unread(ctx context.Context, err error) Pong {
	switch {
	case cancelled(ctx):
		return Pong{Inconclusive: true, Detail: "was not waited for any longer"}
	case timedOut(err):
		return Pong{Detail: "timed out before the answer ended"}
	}
	return Pong{Detail: "the answer broke off: " + err.Error()}
}

// cancelled tells whether it was us who gave up, and not for the time it took.
func cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func timedOut(err error) bool {
	var timeout net.Error // url.Error and context.DeadlineExceeded are such, too
	return errors.As(err, &timeout) && timeout.Timeout()
}

func brokenOff(err error) bool {
	var network *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// exhausted tells failures that say something about this machine only.
func exhausted(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

// cause is the error without the request it was about.
func cause(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return err.Error()
}
