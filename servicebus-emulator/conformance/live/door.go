package live

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// door is one TLS port in front of an emulator. The SDK takes one address for a namespace and opens it for AMQP as well as for
// https; in Azure the two have ports of their own.
type door struct {
	listener net.Listener
	host     string // as clients know it, with its port
	amqp     string // address behind the door
	http     string
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// helloTimeout bounds the TLS handshake and the first bytes of a client.
const helloTimeout = 30 * time.Second

// openDoor opens it with a certificate of its own, which it adds to a file of roots.
func openDoor(roots, amqpAddr, httpAddr string) (*door, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	// For AMQP the SDK compares the certificate with the namespace it was given, which has a port here.
	host := net.JoinHostPort("localhost", port)
	certificate, err := selfSigned(roots, host)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	d := &door{host: host, amqp: amqpAddr, http: httpAddr, open: map[net.Conn]struct{}{}}
	d.listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	d.running.Go(d.accept)
	return d, nil
}

func (d *door) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.running.Go(func() { d.serve(conn) })
	}
}

// serve leads one connection to where its first bytes belong.
func (d *door) serve(conn net.Conn) {
	if !d.keep(conn) {
		return
	}
	defer d.forget(conn)
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	first := make([]byte, 4)
	if _, err := io.ReadFull(conn, first); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	behind := d.http
	if bytes.Equal(first, []byte("AMQP")) {
		behind = d.amqp
	}
	to, err := (&net.Dialer{Timeout: helloTimeout}).DialContext(context.Background(), "tcp", behind)
	if err != nil || !d.keep(to) {
		return
	}
	defer d.forget(to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		paced(conn, to)
		_ = conn.Close()
	}()
	_, _ = to.Write(first)
	_, _ = io.Copy(to, conn)
	_ = to.Close()
	<-done
}

// rate is how many bytes a second an emulator sends through a door, about as a namespace does through a network. A test of the SDK
// shows that a longer wait gathers more of 1 MB of messages; with the speed of loopback all are there at once.
const rate = 8 << 20

func paced(to io.Writer, from io.Reader) {
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
			<-time.After(time.Duration(n) * time.Second / rate)
		}
		if err != nil {
			return
		}
	}
}

func (d *door) keep(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = conn.Close()
		return false
	}
	d.open[conn] = struct{}{}
	return true
}

func (d *door) forget(conn net.Conn) {
	_ = conn.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, conn)
}

// Close ends the connections and waits for them.
func (d *door) Close() error {
	err := d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for conn := range d.open {
		_ = conn.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
