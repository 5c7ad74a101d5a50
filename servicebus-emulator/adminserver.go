package servicebusemulator

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// adminTimeout bounds reading and answering a request, so that a silent client does not hold its goroutine for ever.
const adminTimeout = 30 * time.Second

// adminServer serves the administration API on a port of its own.
type adminServer struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

func serveAdmin(listen string, handler http.Handler) (*adminServer, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("emulator: administration: %w", err)
	}
	a := &adminServer{listener: listener, done: make(chan struct{}), server: &http.Server{
		Handler: handler, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout, IdleTimeout: idleTimeout,
	}}
	go func() {
		defer close(a.done)
		_ = a.server.Serve(listener) // until close
	}()
	return a, nil
}

// close ends all connections and waits for the accepting goroutine.
func (a *adminServer) close() error {
	err := a.server.Close()
	<-a.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
