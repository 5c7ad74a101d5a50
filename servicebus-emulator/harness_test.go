package servicebusemulator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 2 * time.Minute

// fleet is the product's own entities.
func fleet(t testing.TB) emu.Config {
	t.Helper()
	cfg, err := emu.LoadConfig("examples/Config.json")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// one is a topic "t" with a subscription "s".
func one(p emu.SubscriptionProperties) emu.Config {
	return emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{
		Topics: []emu.Topic{{Name: "t", Subscriptions: []emu.Subscription{{Name: "s", Properties: p}}}},
	}}}}
}

func start(t testing.TB, cfg emu.Config, opts emu.Options) *emu.Emulator {
	t.Helper()
	e, err := emu.Start(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return e
}

func connect(t testing.TB, e *emu.Emulator) *azservicebus.Client {
	t.Helper()
	return connectTo(t, e.ConnectionString())
}

func connectTo(t testing.TB, connectionString string) *azservicebus.Client {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(body string) *azservicebus.Message { return &azservicebus.Message{Body: []byte(body)} }

type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// receive gets exactly n messages.
func receive(t testing.TB, r receiver, n int) []*azservicebus.ReceivedMessage {
	t.Helper()
	ctx := within(t)
	var all []*azservicebus.ReceivedMessage
	for len(all) < n {
		got, err := r.ReceiveMessages(ctx, n-len(all), nil)
		if err != nil {
			t.Fatalf("after %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// timesOut accepts the next session until the service answers that none came. A client says how long it waits a hundredth before its own
// patience ends, so on a machine under load it may give up first; then it is asked again with more.
func timesOut(t testing.TB, accept func(context.Context) error) {
	t.Helper()
	for wait := 300 * time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		err := accept(ctx)
		cancel()
		var sbErr *azservicebus.Error
		switch {
		case errors.As(err, &sbErr) && sbErr.Code == azservicebus.CodeTimeout:
			return
		case !errors.Is(err, context.DeadlineExceeded) || wait > patience:
			t.Fatalf("without a free session: %v, want a timeout", err)
		}
	}
}

// eventually polls until a condition holds.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to hold")
		}
	}
}
