package servicebus

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/commandcenter/fleet/services/internal/config"
)

// silent accepts connections and answers nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return "Endpoint=sb://" + listener.Addr().String() + ";SharedAccessKeyName=fake;SharedAccessKey=ZmFrZQ==;UseDevelopmentEmulator=true"
}

// A stop leaves the check at the start running; closing the client ends it, long before the check's own limit.
func TestACheckThatAStopLeftBehindEndsWithItsClient(t *testing.T) {
	client, err := Dial(Config{ConnectionString: config.Secret(silent(t))}, DialOptions{})
	check(t, err)
	stopping, stop := context.WithCancel(t.Context())
	began, bounded := make(chan struct{}), make(chan error, 1)
	stopped := make(chan error, 1)
	go func() {
		stopped <- CheckAtStart(stopping, slog.New(slog.DiscardHandler), "it is tried again", func(ctx context.Context) error {
			close(began)
			err := client.CheckSend(ctx, "t")
			bounded <- ctx.Err()
			return err
		})
	}()
	<-began
	stop()
	check(t, <-stopped)
	_ = client.Close(within(t))
	if err := <-bounded; err != nil {
		t.Fatalf("the check went on until its own limit: %v", err)
	}
}
