package servicebus

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/commandcenter/fleet/services/internal/config"
)

// DialOptions says how a client behaves.
type DialOptions struct {
	// NoRetries makes every operation one attempt, for what must not be done twice (I-4).
	NoRetries bool
}

// Client is one connection to a namespace; it is opened by first use and shared by all that send and receive on it.
type Client struct {
	sdk  *azservicebus.Client
	open context.Context // ends when Close is called
	end  context.CancelFunc
}

func newClient(sdk *azservicebus.Client) *Client {
	open, end := context.WithCancel(context.Background())
	return &Client{sdk: sdk, open: open, end: end}
}

// Dial prepares a client.
func Dial(cfg Config, opts DialOptions) (*Client, error) {
	// The SDK's default waits 4 s before its first retry, which is longer than a reader waits.
	retries := azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 5 * time.Second}
	if opts.NoRetries {
		retries = azservicebus.RetryOptions{MaxRetries: -1}
	}
	options := &azservicebus.ClientOptions{RetryOptions: retries}
	if cfg.Namespace != "" {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("bus.namespace: no Entra ID credential: %w", err)
		}
		sdk, err := azservicebus.NewClient(cfg.Namespace, credential, options)
		return newClient(sdk), err
	}
	text := cfg.ConnectionString
	if cfg.ConnectionStringFile != "" {
		var err error
		if text, err = config.ReadSecretFile("bus.connectionStringFile", cfg.ConnectionStringFile); err != nil {
			return nil, err
		}
	}
	sdk, err := azservicebus.NewClientFromConnectionString(text.Reveal(), options)
	if err != nil {
		return nil, fmt.Errorf("bus: the connection string is not usable: %w", err)
	}
	return newClient(sdk), nil
}

// SDK is the Azure client, for this package's senders and receivers.
func (c *Client) SDK() *azservicebus.Client { return c.sdk }

// Close closes the connection and everything on it. It ends the checks that still run.
func (c *Client) Close(ctx context.Context) error {
	c.end()
	return c.sdk.Close(ctx)
}

// untilClosed returns a context that ends with ctx, or when the client is closed.
func (c *Client) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.open, cancel)
	return ctx, func() { stop(); cancel() }
}
