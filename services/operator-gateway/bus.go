package operatorgateway

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/aside"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/transport/bus"
)

// busTransport sends over the bus. Hold and Prove run until their context ends; Ready tells why nothing can be sent just now.
type busTransport interface {
	command.Transport
	Hold(ctx context.Context) error
	Prove(ctx context.Context) error
	Ready() error
}

// opened is a bus transport with what was opened for it.
type opened struct {
	busTransport
	// check waits for the context, and returns an error that names a right or an entity that is missing.
	check func(context.Context) error
	close func()
}

// openBus prepares the connections to the bus, or what stands in for it where none is used. Nothing is connected to yet.
func openBus(cfg Config, metrics prometheus.Registerer, receivers *aside.Receivers) (*opened, error) {
	if cfg.HTTPOnly {
		return &opened{busTransport: noBus{}, check: noBus{}.Hold, close: func() {}}, nil
	}
	clients, err := dialBus(cfg)
	if err != nil {
		return nil, err
	}
	transport, err := bus.New(bus.Options{
		Commands: clients.commands, Replies: clients.replies, Config: cfg.Bus, Metrics: metrics, Logger: cfg.Logger, AnsweredLate: receivers.AnsweredLate,
	})
	if err != nil {
		clients.close()
		return nil, err
	}
	return &opened{busTransport: transport, check: func(ctx context.Context) error { return clients.check(ctx, cfg) }, close: clients.close}, nil
}

// busClients are the two connections to the bus: commands are sent without retries, so they have their own.
type busClients struct{ commands, replies *servicebus.Client }

func dialBus(cfg Config) (*busClients, error) {
	commands, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{NoRetries: true})
	if err != nil {
		return nil, err
	}
	replies, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{})
	if err != nil {
		return nil, err
	}
	return &busClients{commands, replies}, nil
}

// check opens the links once, so that a missing right or entity ends the gateway and is named.
func (b *busClients) check(ctx context.Context, cfg Config) error {
	return servicebus.CheckAtStart(ctx, cfg.Logger, "agents on HTTP are served meanwhile", func(ctx context.Context) error {
		return errors.Join(b.commands.CheckSend(ctx, cfg.Bus.Topics.Commands), b.replies.CheckSend(ctx, cfg.Bus.Topics.Replies),
			b.replies.CheckSession(ctx, cfg.Bus.Topics.Replies, cfg.Bus.Subscriptions.Replies))
	})
}

func (b *busClients) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = b.commands.Close(ctx)
	_ = b.replies.Close(ctx)
}

// noBus refuses whatever would take the bus.
type noBus struct{}

const noBusDetail = "this gateway serves agents on HTTP alone (httpOnly), and the agent is reached over Service Bus"

func (noBus) Prepare(context.Context) error {
	return &command.NotSent{Reason: fault.BusUnavailable, Detail: noBusDetail}
}

func (n noBus) Send(ctx context.Context, _ command.Target, _ *agentv1.Command, _ command.Still) (*agentv1.CommandResult, error) {
	return nil, n.Prepare(ctx)
}

func (noBus) Hold(ctx context.Context) error  { <-ctx.Done(); return nil }
func (noBus) Prove(ctx context.Context) error { <-ctx.Done(); return nil }
func (noBus) Ready() error                    { return nil }
