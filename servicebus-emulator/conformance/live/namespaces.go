package live

import (
	"errors"
	"fmt"
	"io"
	"time"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// namespace is an emulator behind a door.
type namespace struct {
	emulator *emu.Emulator
	door     *door
}

// The keys of the namespaces; they are made up, and open nothing else. What each may do is in the SDK's own template of its test
// resources.
var keys = map[string]string{
	"RootManageSharedAccessKey": "Y29uZm9ybWFuY2UtbWFuYWdl",
}

// testEntities are those that the SDK's template makes, and the queue "queue", which its tests only ask for.
func testEntities() emu.Config {
	properties := emu.QueueProperties{LockDuration: emu.Duration(5 * time.Minute), MaxDeliveryCount: 10}
	sessions := properties
	sessions.RequiresSession = true
	return emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{
		Name:   "conformance",
		Queues: []emu.Queue{{Name: "testQueue", Properties: properties}, {Name: "testQueueWithSessions", Properties: sessions}},
	}}}}
}

func openNamespace(roots string) (*namespace, error) {
	e, err := emu.Start(testEntities(), emu.Options{AdminListen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	d, err := openDoor(roots, e.Addr(), e.AdminAddr())
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &namespace{e, d}, nil
}

// ConnectionString is one with a key, as Azure gives it.
func (n *namespace) ConnectionString(key string) string {
	return fmt.Sprintf("Endpoint=sb://%s/;SharedAccessKeyName=%s;SharedAccessKey=%s", n.door.host, key, keys[key])
}

// Close stops both.
func (n *namespace) Close() error {
	return errors.Join(n.door.Close(), n.emulator.Close())
}

// world is what the tests of others need around them.
type world struct {
	standard, premium *namespace
	identity          *identity
	roots             string // file of certificates
	closers           []io.Closer
}

func build(roots string) (w *world, err error) {
	w = &world{roots: roots}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, to := range []**namespace{&w.standard, &w.premium} {
		n, err := openNamespace(roots)
		if err != nil {
			return w, err
		}
		*to = n
		w.closers = append(w.closers, n)
	}
	if w.identity, err = newIdentity(); err == nil {
		w.closers = append(w.closers, w.identity)
	}
	return w, err
}

// Close stops everything.
func (w *world) Close() error {
	var all []error
	for _, c := range w.closers {
		all = append(all, c.Close())
	}
	return errors.Join(all...)
}

// Environment is what the tests read.
func (w *world) Environment(faultInjector string) []string {
	const manage = "RootManageSharedAccessKey"
	return append(w.identity.Environment(),
		"AZURE_RECORD_MODE=live",
		"SSL_CERT_FILE="+w.roots,
		"NODE_EXTRA_CA_CERTS="+w.roots,
		"SERVICEBUS_ENDPOINT="+w.standard.door.host,
		"SERVICEBUS_ENDPOINT_PREMIUM="+w.premium.door.host,
		"SERVICEBUS_CONNECTION_STRING="+w.standard.ConnectionString(manage),
		"SERVICEBUS_CONNECTION_STRING_PREMIUM="+w.premium.ConnectionString(manage),
		"SERVICEBUS_CONNECTION_STRING_NO_MANAGE="+w.standard.ConnectionString(manage),
		"SERVICEBUS_CONNECTION_STRING_SEND_ONLY="+w.standard.ConnectionString(manage),
		"SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY="+w.standard.ConnectionString(manage),
		"AMQP_FAULT_INJECTOR_PATH="+faultInjector,
		"AMQP_BROKER_ADDR=amqps://"+w.standard.door.host,
		"CONFORMANCE_ADMIN_URL=https://"+w.standard.door.host+"/",
		"CONFORMANCE_ADMIN_TOKEN=",
	)
}
