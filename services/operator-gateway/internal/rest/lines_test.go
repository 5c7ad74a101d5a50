package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

const watchPath = "/api/availability:watch"

type watchStream = grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]

func sendServer(stream watchStream, name string) error {
	return stream.Send(&availabilityv1.WatchAvailabilityResponse{
		Event: &availabilityv1.WatchAvailabilityResponse_Server{Server: &availabilityv1.ServerAvailability{Server: name}},
	})
}

func TestEventsAreLinesAndAFailureIsTheLastOne(t *testing.T) {
	f := newFace(t, authn.Local())
	f.watch = func(stream watchStream) error {
		_ = sendServer(stream, "BM-1")
		_ = sendServer(stream, "BM-2")
		return fault.New(fault.AvailabilityUnavailable, "no more of it")
	}
	answered := f.do("GET", watchPath, "", "X-Request-Id", "order-66")
	if answered.StatusCode != 200 || answered.Header.Get("Content-Type") != "application/x-ndjson" || answered.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v", answered.Status, answered.Header)
	}
	lines := slices.Collect(strings.Lines(string(answered.body)))
	var last restserver.Problem
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"server":{`) || !strings.Contains(lines[1], `"server":"BM-2"`) || json.Unmarshal([]byte(lines[2]), &last) != nil {
		t.Fatalf("%s", answered.body)
	}
	if last.Status != 503 || last.Reason != "AVAILABILITY_UNAVAILABLE" || last.Detail != "no more of it" || last.Instance != "urn:commandcenter:request:order-66" {
		t.Errorf("the last line is %+v", last)
	}
	if logged := f.log.lines("order-66"); len(logged) != 1 || logged[0]["reason"] != "AVAILABILITY_UNAVAILABLE" {
		t.Errorf("logged as %v", logged)
	}
}

func TestAFailureBeforeTheFirstEventIsAnOrdinaryProblem(t *testing.T) {
	f := newFace(t, authn.Local())
	f.watch = func(watchStream) error { return fault.New(fault.AvailabilityUnavailable, "none") }
	if answered := f.do("GET", watchPath, ""); answered.StatusCode != 503 || answered.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", answered.Status, answered.body)
	}
}

// Each event goes out when it comes, however much later the next one does; and the watch ends with its caller.
func TestEventsAreNotHeldBackAndEndWithTheirCaller(t *testing.T) {
	f := newFace(t, authn.Local())
	taken, ended := make(chan struct{}), make(chan error, 1)
	f.watch = func(stream watchStream) error {
		_ = sendServer(stream, "BM-1")
		<-taken // only after the caller has the first
		_ = sendServer(stream, "BM-2")
		<-stream.Context().Done()
		ended <- stream.Context().Err()
		return stream.Context().Err()
	}
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, "GET", f.URL+watchPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	for _, name := range []string{"BM-1", "BM-2"} {
		line, err := body.ReadString('\n')
		if err != nil || !strings.Contains(line, name) {
			t.Fatalf("%q: %v", line, err)
		}
		if name == "BM-1" {
			close(taken)
		}
	}
	leave()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the watch went on without its caller")
	}
}

// However long nothing happens, the server's time for an answer does not end a watch. It would over HTTP/2, where it is a timer.
func TestAQuietWatchGoesOn(t *testing.T) {
	t.Parallel()
	f := newFace(t, authn.Local())
	const writeTimeout = time.Second
	f.watch = func(stream watchStream) error {
		quiet := time.NewTimer(writeTimeout * 3 / 2)
		defer quiet.Stop()
		select {
		case <-quiet.C:
			return sendServer(stream, "BM-1")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
	server := httptest.NewUnstartedServer(f.handler)
	server.EnableHTTP2, server.Config.WriteTimeout = true, writeTimeout
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL + watchPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.ProtoMajor != 2 || !strings.Contains(string(body), "BM-1") {
		t.Errorf("%s %q: %v", response.Proto, body, err)
	}
}

// A HEAD's answer is over with its header: an endless body that nobody reads would keep the connection from its next request.
func TestHeadOfAWatchEnds(t *testing.T) {
	f := newFace(t, authn.Local())
	f.watch = func(stream watchStream) error {
		_ = sendServer(stream, "BM-1")
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, "HEAD", f.URL+watchPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := f.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s %v", response.Status, response.Header)
		}
	}
}
