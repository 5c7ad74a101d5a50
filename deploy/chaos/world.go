package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// world is the system under chaos.
type world struct {
	dir        string
	emulator   *emulator.Emulator
	registry   *service
	heartbeats [2]*service
	gateways   [2]*service
	rest       [2]string // base URLs of the gateways
	agents     *process.Process
	agentsArgs []string
	conn       *grpc.ClientConn
	read       registryv1.AgentRegistryClient
}

// newWorld starts everything but the agents.
func newWorld(ctx context.Context, dir string) (_ *world, err error) {
	w := &world{dir: dir}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.emulator, err = startEmulator(); err != nil {
		return nil, err
	}
	bus := "bus.connectionString=" + w.emulator.ConnectionString()
	addresses := make([]string, 12)
	for i := range addresses {
		if addresses[i], err = process.FreeAddress(); err != nil {
			return nil, err
		}
	}
	registry := addresses[0]
	w.registry = &service{world: w, binary: "registry", admin: addresses[1], settings: []string{
		"grpc.listen=" + registry, "database.url=sqlite:" + w.database(), "database.migrate=true",
	}}
	for i := range w.heartbeats {
		w.heartbeats[i] = &service{world: w, binary: "heartbeat", admin: addresses[2+i], settings: []string{
			"grpc.listen=" + addresses[4+i], "registry.target=" + registry, bus, "ingest.holdTimeout=2s",
		}}
		w.gateways[i] = &service{world: w, binary: "operator-gateway", admin: addresses[6+i], settings: []string{
			"grpc.listen=" + addresses[8+i], "rest.listen=" + addresses[10+i], "registry.target=" + registry, bus,
			"budgets.write=" + writeBudget.String(), "budgets.read=" + readBudget.String(),
		}}
		w.rest[i] = "http://" + addresses[10+i]
	}
	for _, one := range []*service{w.registry, w.heartbeats[0], w.heartbeats[1], w.gateways[0], w.gateways[1]} {
		if err := one.start(ctx); err != nil {
			return nil, err
		}
	}
	if w.conn, err = grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	w.read = registryv1.NewAgentRegistryClient(w.conn)
	return w, nil
}

func (w *world) database() string { return filepath.Join(w.dir, "fleet.db") }

// done is where the machines write what they did.
func (w *world) done() string { return filepath.Join(w.dir, "done.log") }

func (w *world) startAgents(broken string, count int) error {
	w.agentsArgs = []string{"-bus", w.emulator.ConnectionString(), "-dir", w.dir, "-count", fmt.Sprint(count), "-done", w.done(), "-break", broken}
	return w.restartAgents()
}

func (w *world) restartAgents() (err error) {
	w.agents, err = process.Start("chaos-agents", w.dir, w.agentsArgs...)
	return err
}

func (w *world) close() {
	if w.agents != nil {
		w.agents.Stop()
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
	for _, one := range []*service{w.gateways[0], w.gateways[1], w.heartbeats[0], w.heartbeats[1], w.registry} {
		if one != nil && one.running != nil {
			one.running.Stop()
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
