package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/commandcenter/fleet/deploy/entities"
	"github.com/commandcenter/fleet/deploy/process"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// system is a fresh system: the emulator in this process, each service in its own.
type system struct {
	dir               string
	emulator          *servicebusemulator.Emulator
	registry, gateway *process.Process
	heartbeats        []*process.Process
	heartbeatSettings []string
	registryAddress   string
	rest              string
	conn              *grpc.ClientConn
	agents            registryv1.AgentRegistryClient
	processes         []*process.Process
}

// newSystem starts everything and waits until it is ready.
func newSystem(ctx context.Context) (*system, error) { return newSystemWith(ctx, 0) }

// newSystemWith starts everything with another lock on heartbeats, 0 for the usual one, and other settings of the heartbeat service.
func newSystemWith(ctx context.Context, lock time.Duration, heartbeat ...string) (_ *system, err error) {
	s := &system{heartbeatSettings: heartbeat}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "fleet-bench-*"); err != nil {
		return nil, err
	}
	if s.emulator, err = startEmulatorWith(lock); err != nil {
		return nil, err
	}
	addresses := make([]string, 5)
	for i := range addresses {
		if addresses[i], err = process.FreeAddress(); err != nil {
			return nil, err
		}
	}
	registry, bus := addresses[0], "bus.connectionString="+s.emulator.ConnectionString()
	s.rest = "http://" + addresses[3]
	if s.registry, err = s.launch(ctx, "registry", addresses[1],
		"grpc.listen="+registry, "database.url=sqlite:"+filepath.Join(s.dir, "fleet.db"), "database.migrate=true", "returns.busReconnect=3s"); err != nil {
		return nil, err
	}
	s.registryAddress = registry
	if err := s.addHeartbeat(ctx); err != nil {
		return nil, err
	}
	if s.gateway, err = s.launch(ctx, "operator-gateway", addresses[4],
		"grpc.listen="+addresses[2], "rest.listen="+addresses[3], "registry.target="+registry, bus); err != nil {
		return nil, err
	}
	if s.conn, err = grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	s.agents = registryv1.NewAgentRegistryClient(s.conn)
	return s, nil
}

// addHeartbeat starts one more replica of the heartbeat service.
func (s *system) addHeartbeat(ctx context.Context) error {
	listen, err := process.FreeAddress()
	if err != nil {
		return err
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return err
	}
	replica, err := s.launch(ctx, "heartbeat", admin, append(s.heartbeatSettings, "grpc.listen="+listen, "registry.target="+s.registryAddress,
		"bus.connectionString="+s.emulator.ConnectionString())...)
	if err == nil {
		s.heartbeats = append(s.heartbeats, replica)
	}
	return err
}

func (s *system) launch(ctx context.Context, name, admin string, settings ...string) (*process.Process, error) {
	args := []string{"-set", "log.level=warn", "-set", "admin.listen=" + admin}
	for _, setting := range settings {
		args = append(args, "-set", setting)
	}
	started, err := process.Start(name, s.dir, args...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, started)
	return started, started.Ready(ctx, admin)
}

func (s *system) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop()
	}
	if s.emulator != nil {
		_ = s.emulator.Close()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
	}
}

func startEmulator() (*servicebusemulator.Emulator, error) { return startEmulatorWith(0) }

// startEmulatorWith starts one with another lock on heartbeats; 0 is the usual one.
func startEmulatorWith(lock time.Duration) (*servicebusemulator.Emulator, error) {
	config, err := entities.Config()
	if err != nil {
		return nil, err
	}
	if lock > 0 {
		for _, topic := range config.UserConfig.Namespaces[0].Topics {
			if topic.Name == stateTopic {
				topic.Subscriptions[0].Properties.LockDuration = servicebusemulator.Duration(lock)
			}
		}
	}
	return servicebusemulator.Start(config, servicebusemulator.Options{})
}
