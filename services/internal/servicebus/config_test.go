package servicebus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/internal/config"
)

const fakeConnection = "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=app;SharedAccessKey=ZmFrZQ=="

func TestI17_BadBusSettingsAreRefusedByKey(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"good": fakeConnection + "\n", "empty": " ", "wrong": "hush"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) func(*Config) {
		return func(c *Config) { c.ConnectionStringFile = filepath.Join(dir, name) }
	}
	direct := func(text string) func(*Config) {
		return func(c *Config) { c.ConnectionString = config.Secret(text) }
	}
	namespace := func(text string) func(*Config) { return func(c *Config) { c.Namespace = text } }
	with := func(changes ...func(*Config)) func(*Config) {
		return func(c *Config) {
			for _, change := range append(changes, direct(fakeConnection)) {
				change(c)
			}
		}
	}
	for name, row := range map[string]struct {
		change func(*Config)
		want   []string // keys; none: it is good
	}{
		"file":               {file("good"), nil},
		"direct":             {direct(fakeConnection), nil},
		"emulator":           {direct("Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=a;SharedAccessKey=fake;UseDevelopmentEmulator=true"), nil},
		"namespace":          {namespace("example.servicebus.windows.net"), nil},
		"none":               {func(*Config) {}, []string{"bus: exactly one of connectionStringFile, connectionString and namespace must be set, 0 are"}},
		"two":                {with(namespace("example.servicebus.windows.net")), []string{"bus: exactly one"}},
		"missing file":       {file("missing"), []string{"bus.connectionStringFile: "}},
		"empty file":         {file("empty"), []string{"bus.connectionStringFile: "}},
		"wrong file":         {file("wrong"), []string{"bus.connectionStringFile: is not a Service Bus connection string"}},
		"not one":            {direct("hush"), []string{"bus.connectionString: "}},
		"no key":             {direct("Endpoint=sb://hush/"), []string{"bus.connectionString: ", "SharedAccessKeyName"}},
		"no value":           {direct("Endpoint=sb://x/;hush"), []string{"bus.connectionString: "}},
		"namespace with ://": {namespace("sb://example.servicebus.windows.net"), []string{"bus.namespace: "}},
		"short namespace":    {namespace("example"), []string{"bus.namespace: "}},
		"no topics": {
			with(func(c *Config) { c.Topics = Topics{} }),
			[]string{"bus.topics.state: is required", "bus.topics.commands: is required", "bus.topics.replies: is required"},
		},
		"one topic twice": {
			with(func(c *Config) { c.Topics.Replies = "AGENT-State" }), []string{"bus.topics.replies: ", "bus.topics.state already"},
		},
		"no subscriptions": {
			with(func(c *Config) { c.Subscriptions = Subscriptions{} }),
			[]string{"bus.subscriptions.state: is required", "bus.subscriptions.replies: is required"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			row.change(&cfg)
			err := cfg.Validate("bus")
			if (err == nil) != (row.want == nil) {
				t.Fatal(err)
			}
			for _, part := range row.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%q shows the connection string", err)
			}
		})
	}
}
