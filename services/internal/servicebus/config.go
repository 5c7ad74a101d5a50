package servicebus

import (
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/commandcenter/fleet/services/internal/config"
)

// Config says which namespace is used and what its entities are called. Exactly one of ConnectionStringFile, ConnectionString
// and Namespace is set.
type Config struct {
	// ConnectionStringFile holds a connection string.
	ConnectionStringFile string `config:"connectionStringFile"`
	// ConnectionString itself, for local use, where it holds no secret.
	ConnectionString config.Secret `config:"connectionString"`
	// Namespace is the fully qualified namespace (name.servicebus.windows.net), signed in to with Entra ID.
	Namespace     string        `config:"namespace"`
	Topics        Topics        `config:"topics"`
	Subscriptions Subscriptions `config:"subscriptions"`
}

// Topics names the topics.
type Topics struct {
	State    string `config:"state"`
	Commands string `config:"commands"`
	Replies  string `config:"replies"`
}

// Subscriptions names the subscriptions of each topic.
type Subscriptions struct {
	// State is the one shared subscription of the state topic.
	State string `config:"state"`
	// Replies is the session-enabled subscription of the replies topic.
	Replies string `config:"replies"`
}

// DefaultConfig names the entities as the documentation does.
func DefaultConfig() Config {
	return Config{
		Topics:        Topics{State: "agent-state", Commands: "agent-commands", Replies: "agent-replies"},
		Subscriptions: Subscriptions{State: "commandcenter", Replies: "gateways"},
	}
}

// Validate checks the settings; errors name the keys under prefix.
func (c Config) Validate(prefix string) error {
	var problems config.Problems
	ways := 0
	for _, set := range []bool{c.ConnectionStringFile != "", c.ConnectionString != "", c.Namespace != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		problems.Add(prefix, "exactly one of connectionStringFile, connectionString and namespace must be set, %d are", ways)
	}
	if c.ConnectionStringFile != "" {
		text, err := config.ReadSecretFile(prefix+".connectionStringFile", c.ConnectionStringFile)
		problems.AddError(err)
		checkConnectionString(&problems, prefix+".connectionStringFile", text)
	}
	checkConnectionString(&problems, prefix+".connectionString", c.ConnectionString)
	if strings.Contains(c.Namespace, "/") || (c.Namespace != "" && !strings.Contains(c.Namespace, ".")) {
		problems.Add(prefix+".namespace", "must be the fully qualified host name (name.servicebus.windows.net), without a scheme")
	}
	c.checkNames(&problems, prefix)
	return problems.Err()
}

func (c Config) checkNames(problems *config.Problems, prefix string) {
	topics := map[string]string{} // key by name, as the namespace compares names
	for _, topic := range []struct{ key, name string }{
		{"topics.state", c.Topics.State}, {"topics.commands", c.Topics.Commands}, {"topics.replies", c.Topics.Replies},
	} {
		other, taken := topics[strings.ToLower(topic.name)]
		switch {
		case topic.name == "":
			problems.Add(prefix+"."+topic.key, "is required")
		case taken:
			problems.Add(prefix+"."+topic.key, "is %q, which is %s.%s already; each carries its own kind of message", topic.name, prefix, other)
		default:
			topics[strings.ToLower(topic.name)] = topic.key
		}
	}
	if c.Subscriptions.State == "" {
		problems.Add(prefix+".subscriptions.state", "is required")
	}
	if c.Subscriptions.Replies == "" {
		problems.Add(prefix+".subscriptions.replies", "is required")
	}
}

// checkConnectionString lets the SDK read it, which connects to nothing yet. The SDK's errors name its parts, not their values.
func checkConnectionString(problems *config.Problems, key string, text config.Secret) {
	if text == "" {
		return
	}
	if !strings.Contains(strings.ToLower(text.Reveal()), "endpoint=sb://") {
		problems.Add(key, "is not a Service Bus connection string: it must hold Endpoint=sb://…")
		return
	}
	if _, err := azservicebus.NewClientFromConnectionString(text.Reveal(), nil); err != nil {
		problems.Add(key, "is not a usable Service Bus connection string: %v", err)
	}
}
