package chaos

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/commandcenter/fleet/deploy/entities"
	"github.com/commandcenter/fleet/deploy/process"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
)

const (
	stateTopic, stateSubscription = "agent-state", "commandcenter"
	// lock and maxDeliveries of the state subscription are the least that Service Bus knows and few, so that an outage longer than
	// all deliveries fits into the time there is.
	lock          = 5 * time.Second
	maxDeliveries = 4

	writeBudget, readBudget = 4 * time.Second, 2 * time.Second

	// HeartbeatInterval is that of the agents that have servers; they are silent after maxHeartbeatAge.
	HeartbeatInterval, maxHeartbeatAge = 3 * time.Second, 12 * time.Second
	sweepInterval, sweepLease          = time.Second, 4 * time.Second
	// controlServerLease is how long a control server may go without renewing before it is suspect.
	controlServerLease = 12 * time.Second
)

// service is one that can be stopped, killed and started again, at the same addresses.
type service struct {
	world    *world
	binary   string
	admin    string
	settings []string
	running  *process.Process
}

func (s *service) start(ctx context.Context) error {
	args := []string{"-set", "log.level=info", "-set", "admin.listen=" + s.admin}
	for _, setting := range s.settings {
		args = append(args, "-set", setting)
	}
	var err error
	if s.running, err = process.Start(s.binary, s.world.dir, args...); err != nil {
		return err
	}
	return s.running.Ready(ctx, s.admin)
}

// metric reads one gauge of the service.
func (s *service) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no metric %s", s.binary, name), lines.Err())
}

// world is the system under chaos. Each service but the registry has two replicas; those of heartbeat are the control servers.
type world struct {
	dir          string
	emulator     *emulator.Emulator
	registry     *service
	heartbeats   [2]*service
	availability [2]*service
	gateways     [2]*service
	rest         [2]string // base URLs of the gateways
	control      [2]string // addresses at which agents call the control servers
	direct       []string  // addresses at which the direct agents serve commands, an agent each
	agents       *process.Process
	broken       string
	conn         *grpc.ClientConn
	read         registryv1.AgentRegistryClient
}

// newWorld starts everything but the agents, of which so many will be direct.
func newWorld(ctx context.Context, dir string, direct int) (_ *world, err error) {
	w := &world{dir: dir}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.emulator, err = startEmulator(); err != nil {
		return nil, err
	}
	if err := os.Setenv(clockVariable, w.clock()); err != nil { // the services inherit it
		return nil, err
	}
	if err := os.WriteFile(w.enrolmentKey(), []byte(rand.Text()), 0o600); err != nil {
		return nil, err
	}
	registry, err := w.configure(direct)
	if err != nil {
		return nil, err
	}
	for _, service := range w.services() {
		if err := service.start(ctx); err != nil {
			return nil, err
		}
	}
	if w.conn, err = grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	w.read = registryv1.NewAgentRegistryClient(w.conn)
	return w, nil
}

// configure gives everything its addresses and settings, and returns the registry's address.
func (w *world) configure(direct int) (registry string, err error) {
	free := func() (address string) {
		if err == nil {
			address, err = process.FreeAddress()
		}
		return address
	}
	bus, database := "bus.connectionString="+w.emulator.ConnectionString(), "database.url=sqlite:"+w.database()
	registry = free()
	w.registry = w.service("registry", free(), "grpc.listen="+registry, database, "database.migrate=true",
		"cloud.debounce=300ms", "cloud.leaseTimeout="+controlServerLease.String(), "cloud.freezeInterval=20s", "cloud.evictionGrace=1m",
		"returns.longestPause="+HeartbeatInterval.String(), "returns.busReconnect="+HeartbeatInterval.String())
	for i := range 2 {
		w.control[i] = free()
		w.heartbeats[i] = w.service("heartbeat", free(), "grpc.listen="+free(), "registry.target="+registry, bus, "ingest.holdTimeout=2s",
			fmt.Sprintf("ingress.name=control-%d", i+1), "ingress.grpc.listen="+w.control[i], "ingress.rest.listen="+free(),
			"ingress.enrolmentKeyFile="+w.enrolmentKey(), "ingress.heartbeatInterval="+HeartbeatInterval.String(), "ingress.drainTimeout=500ms")
		availability := free()
		w.availability[i] = w.service("availability", free(), "grpc.listen="+availability, "registry.target="+registry, database,
			"database.migrate=true", "mode=own", "replica="+availabilityReplica(i),
			"sweepInterval="+sweepInterval.String(), "leaseDuration="+sweepLease.String(), "probes.timeout="+sweepInterval.String(),
			"heartbeatInterval="+HeartbeatInterval.String(), "maxHeartbeatAge="+maxHeartbeatAge.String())
		rest := free()
		w.gateways[i] = w.service("operator-gateway", free(), "grpc.listen="+free(), "rest.listen="+rest, "registry.target="+registry,
			"availability.target="+availability, bus, "budgets.write="+writeBudget.String(), "budgets.read="+readBudget.String())
		w.rest[i] = "http://" + rest
	}
	for range direct {
		w.direct = append(w.direct, free())
	}
	return registry, err
}

func availabilityReplica(i int) string { return fmt.Sprintf("availability-%d", i+1) }

func (w *world) service(binary, admin string, settings ...string) *service {
	return &service{world: w, binary: binary, admin: admin, settings: settings}
}

// services are all of them, in the order in which they start.
func (w *world) services() []*service {
	return []*service{
		w.registry, w.heartbeats[0], w.heartbeats[1], w.availability[0], w.availability[1], w.gateways[0], w.gateways[1],
	}
}

func (w *world) database() string     { return filepath.Join(w.dir, "fleet.db") }
func (w *world) enrolmentKey() string { return filepath.Join(w.dir, "enrolment.key") }

// done is where the machines write what they did.
func (w *world) done() string { return filepath.Join(w.dir, "done.log") }

// startAgents starts so many agents on the bus, and so many direct ones.
func (w *world) startAgents(bus, direct int) (err error) {
	w.agents, err = process.Start("chaos-agents", w.dir, "-bus", w.emulator.ConnectionString(), "-dir", w.dir, "-done", w.done(), "-break", w.broken,
		"-count", fmt.Sprint(bus), "-direct", strings.Join(w.direct[:direct], ","),
		"-control-servers", strings.Join(w.control[:], ","), "-enrolment-key-file", w.enrolmentKey())
	return err
}

func (w *world) close() {
	if w.agents != nil {
		w.agents.Stop()
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
	for _, service := range slices.Backward(w.services()) {
		if service != nil && service.running != nil {
			service.running.Stop()
		}
	}
	if w.emulator != nil {
		_ = w.emulator.Close()
	}
}

func startEmulator() (*emulator.Emulator, error) {
	config, err := entities.Config()
	if err != nil {
		return nil, err
	}
	for i, topic := range config.UserConfig.Namespaces[0].Topics {
		if topic.Name == stateTopic {
			properties := &config.UserConfig.Namespaces[0].Topics[i].Subscriptions[0].Properties
			properties.LockDuration, properties.MaxDeliveryCount = emulator.Duration(lock), maxDeliveries
		}
	}
	return emulator.Start(config, emulator.Options{})
}

// remove deletes what the run left, unless something failed: then it is what there is to look at.
func remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
	}
}
