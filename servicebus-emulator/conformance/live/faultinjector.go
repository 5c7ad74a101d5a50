package live

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// InjectFaults is the SDK's fault injector: a program between a client and Service Bus that its tests start with
//
//	transfer_delay --after 1 --delay 5s --cert DIR --logs DIR --address-file FILE --host HOST
//
// It listens with TLS on loopback, writes its address to the file, and passes on what is said. After as many messages of the service
// as --after says, it holds each for the delay. It runs until its context ends or it is killed.
func InjectFaults(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("transfer_delay", flag.ContinueOnError)
	after := flags.Int("after", 0, "transfers that pass at once")
	delay := flags.Duration("delay", 0, "how long each of the others is held")
	certificates := flags.String("cert", "", "folder for the certificate")
	flags.String("logs", "", "folder for logs; none are written")
	addressFile := flags.String("address-file", "", "file to write the address to")
	host := flags.String("host", "", "host of the service, with an optional port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	certificate, err := selfSigned(filepath.Join(*certificates, "injector.pem"))
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	if err := os.WriteFile(*addressFile, []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(*host); err != nil {
		*host = net.JoinHostPort(*host, "5671")
	}
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			if err := relay(ctx, client, *host, *after, *delay); err != nil {
				fmt.Fprintln(os.Stderr, "fault injector:", err)
			}
		}()
	}
}

// relay passes on between a client and the service until one of them ends.
func relay(ctx context.Context, client net.Conn, host string, after int, delay time.Duration) error {
	service, err := (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer service.Close()
	go func() {
		defer client.Close()
		defer service.Close()
		_, _ = io.Copy(service, client)
	}()
	messages := 0
	for w := (watcher{answers: map[link]bool{}}); ; {
		frame, message, err := w.next(service)
		if err != nil {
			return nil //nolint:nilerr // the end of the connection
		}
		if message {
			messages++
		}
		if message && messages > after {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if _, err := client.Write(frame); err != nil {
			return nil //nolint:nilerr // the end of the connection
		}
	}
}
