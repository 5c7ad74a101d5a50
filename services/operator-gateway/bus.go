package operatorgateway

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/servicebus"
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

// openBus connects to the bus, or stands in for it where none is used. The second result closes what was opened.
func openBus(ctx context.Context, cfg Config, metrics prometheus.Registerer) (busTransport, func(), error) {
	if cfg.HTTPOnly {
		return noBus{}, func() {}, nil
	}
	clients, err := dialBus(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	transport, err := bus.New(bus.Options{Commands: clients.commands, Replies: clients.replies, Config: cfg.Bus, Metrics: metrics, Logger: cfg.Logger})
	if err != nil {
		clients.close()
		return nil, nil, err
	}
	return transport, clients.close, nil
}

// busClients are the two connections to the bus: commands are sent without retries, so they have their own.
type busClients struct{ commands, replies *servicebus.Client }

func dialBus(ctx context.Context, cfg Config) (*busClients, error) {
	commands, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{NoRetries: true})
	if err != nil {
		return nil, err
	}
	replies, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{})
	if err != nil {
		return nil, err
	}
	clients := &busClients{commands, replies}
	checking, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = errors.Join(commands.CheckSend(checking, cfg.Bus.Topics.Commands), replies.CheckSend(checking, cfg.Bus.Topics.Replies),
		replies.CheckSession(checking, cfg.Bus.Topics.Replies, cfg.Bus.Subscriptions.Replies))
	var access *servicebus.AccessError
	if errors.As(err, &access) {
		clients.close()
		return nil, err
	}
	if err != nil {
		cfg.Logger.Warn("the bus cannot be reached yet; agents on HTTP are served meanwhile", "error", err)
	}
	return clients, nil
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
