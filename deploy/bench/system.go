package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/commandcenter/fleet/deploy/entities"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// system is a fresh system: the emulator in this process, each service in its own.
type system struct {
	dir                          string
	emulator                     *servicebusemulator.Emulator
	registry, heartbeat, gateway *process
	rest                         string
	conn                         *grpc.ClientConn
	agents                       registryv1.AgentRegistryClient
	processes                    []*process
}

// newSystem starts everything and waits until it is ready.
func newSystem(ctx context.Context) (_ *system, err error) {
	s := &system{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "fleet-bench-*"); err != nil {
		return nil, err
	}
	if s.emulator, err = startEmulator(); err != nil {
		return nil, err
	}
	addresses := make([]string, 7)
	for i := range addresses {
		if addresses[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	registry, bus := addresses[0], "bus.connectionString="+s.emulator.ConnectionString()
	s.rest = "http://" + addresses[5]
	if s.registry, err = s.launch(ctx, "registry", addresses[1],
		"grpc.listen="+registry, "database.url=sqlite:"+filepath.Join(s.dir, "fleet.db"), "database.migrate=true"); err != nil {
		return nil, err
	}
	if s.heartbeat, err = s.launch(ctx, "heartbeat", addresses[3], "grpc.listen="+addresses[2], "registry.target="+registry, bus); err != nil {
		return nil, err
	}
	if s.gateway, err = s.launch(ctx, "operator-gateway", addresses[6],
		"grpc.listen="+addresses[4], "rest.listen="+addresses[5], "registry.target="+registry, bus); err != nil {
		return nil, err
	}
	if s.conn, err = grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	s.agents = registryv1.NewAgentRegistryClient(s.conn)
	return s, nil
}

func (s *system) launch(ctx context.Context, name, admin string, settings ...string) (*process, error) {
	args := []string{"-set", "log.level=warn", "-set", "admin.listen=" + admin}
	for _, setting := range settings {
		args = append(args, "-set", setting)
	}
	started, err := start(name, s.dir, args...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, started)
	return started, started.ready(ctx, admin)
}

func (s *system) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	if s.emulator != nil {
		_ = s.emulator.Close()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
	}
}

func startEmulator() (*servicebusemulator.Emulator, error) {
	config, err := entities.Config()
	if err != nil {
		return nil, err
	}
	return servicebusemulator.Start(config, servicebusemulator.Options{})
}
