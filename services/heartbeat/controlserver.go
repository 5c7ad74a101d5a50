package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/ingress"
	"github.com/commandcenter/fleet/services/heartbeat/internal/skew"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// IngressHealthService is the name under which health checks ask for the control server: on the agents' listener whether agents should
// come to it, on the service's own listener whether the agents' listener does its work, which is readiness.
const IngressHealthService = "commandcenter.heartbeat.ingress"

const (
	// presenceFactor times the heartbeat interval is how long an agent counts as connected after it was served.
	presenceFactor = 3
	// maxStreams is how many calls one connection may have under way: few for an agent, more for a proxy before many.
	maxStreams = 1000
	maxVersion = 64
)

// controlServer is the ingress with all that belongs to it. Nil: this replica is none.
type controlServer struct {
	key        *ingress.EnrolmentKey
	evidence   *ingress.Evidence
	gathering  *ingress.Gathering
	membership *ingress.Membership
	service    *ingress.Service
	prover     *ingress.Prover
	listener   *grpcserver.Server
	behindREST *grpcserver.InProcess
	front      *ingress.Front // nil without REST
}

// newControlServer listens for agents and joins the cloud; nothing is served before the parts run. An error may say why it may not join.
func newControlServer(ctx context.Context, cfg Config, conn grpc.ClientConnInterface, metrics prometheus.Registerer,
	skews *skew.Metrics, health *health,
) (*controlServer, error) {
	if !cfg.Ingress.enabled() {
		return nil, nil
	}
	s, own := &controlServer{evidence: ingress.NewEvidence()}, ingress.NewMetrics(metrics)
	if err := s.listen(ctx, cfg, own, metrics); err != nil {
		s.close()
		return nil, err
	}
	s.serve(cfg, registry{registryv1.NewAgentRegistryClient(conn)}, cloud{registryv1.NewControlCloudClient(conn)}, own)
	s.membership.Skews = skews
	s.prover.Proved = func() { s.show(health) }
	if err := s.membership.Join(ctx); err != nil {
		s.close()
		return nil, err
	}
	health.ingress = s.ready
	at, rest := s.addresses()
	cfg.Logger.Info("serving agents", "control_server", cfg.Ingress.Name, "grpc", at, "rest", rest)
	return s, nil
}

// listen opens the listeners, and what leads from REST to the service.
func (s *controlServer) listen(ctx context.Context, cfg Config, own *ingress.Metrics, metrics prometheus.Registerer) (err error) {
	if s.key, err = ingress.OpenEnrolmentKey("ingress.enrolmentKeyFile", cfg.Ingress.EnrolmentKeyFile, cfg.Logger); err != nil {
		return err
	}
	options := func(face string) grpcserver.Options {
		return grpcserver.Options{
			Config: grpcserver.ListenConfig{Listen: cfg.Ingress.GRPC.Listen, TLS: cfg.Ingress.GRPC.TLS}, Tokens: authn.InRequests(), Policy: ingress.Policy(),
			Logger: cfg.Logger.With("face", face), Metrics: faced(metrics, face), Deadlines: ingress.Deadlines(), Quiet: ingress.Quiet(),
			DrainGrace: ingress.DrainGrace, MaxMessageBytes: ingress.MaxBodyBytes, MaxStreams: maxStreams,
		}
	}
	if s.listener, err = grpcserver.New(options("ingress-grpc")); err != nil {
		return fmt.Errorf("ingress.grpc: %w", err)
	}
	if cfg.Ingress.REST.Listen == "" {
		return nil
	}
	if s.behindREST, err = grpcserver.NewInProcess(options("ingress-rest")); err != nil {
		return fmt.Errorf("ingress.rest: %w", err)
	}
	handler, err := ingress.NewHandler(ctx, ingress.HandlerOptions{
		Conn: s.behindREST, Metrics: own, Logger: cfg.Logger.With("face", "ingress-rest"), LoopbackOnly: cfg.Ingress.EnrolmentKeyFile == "",
	})
	if err != nil {
		return fmt.Errorf("ingress.rest: %w", err)
	}
	if s.front, err = ingress.NewFront(cfg.Ingress.REST.Listen, cfg.Ingress.REST.TLS, handler, cfg.Logger); err != nil {
		return fmt.Errorf("ingress.rest.listen: %w", err)
	}
	return nil
}

// serve makes the service behind the listeners.
func (s *controlServer) serve(cfg Config, registry registry, cloud cloud, own *ingress.Metrics) {
	c := cfg.Ingress
	grpcEndpoint, restEndpoint := c.advertised(s.addresses())
	self := &registryv1.RenewControlServerRequest{
		Name: c.Name, GrpcEndpoint: grpcEndpoint, RestEndpoint: restEndpoint, Version: version(),
		ProtocolMin: int32(c.ProtocolMin), ProtocolMax: int32(c.ProtocolMax),
	}
	s.membership = ingress.NewMembership(cloud, self, presenceFactor*c.HeartbeatInterval, c.DrainTimeout, cfg.Logger)
	s.prover = &ingress.Prover{
		Evidence: s.evidence, Membership: s.membership, Reporter: registry, Metrics: own, Logger: cfg.Logger,
		Address: s.listener.Addr(), TLS: c.GRPC.TLS.CertFile != "",
	}
	s.gathering = ingress.NewGathering(registry, s.prover.Report, own, cfg.Logger)
	s.prover.Gathering = s.gathering
	s.service = ingress.NewService(ingress.Options{
		Name: c.Name, Protocols: ingress.Protocols{Min: self.GetProtocolMin(), Max: self.GetProtocolMax()}, HeartbeatInterval: c.HeartbeatInterval,
		ConnectsPerSecond: c.ConnectsPerSecond, Key: s.key, Gathering: s.gathering, Lists: cloud, Membership: s.membership, Evidence: s.evidence, Metrics: own,
	})
	heartbeatv1.RegisterAgentIngressServer(s.listener.GRPC(), s.service)
	if s.behindREST != nil {
		heartbeatv1.RegisterAgentIngressServer(s.behindREST, s.service)
	}
}

// parts are in the order in which they start. They stop from the last to the first: agents are told to go while they are served, then
// the listeners close, then what waits for the registry is recorded.
func (s *controlServer) parts() []lifecycle.Part {
	if s == nil {
		return nil
	}
	parts := []lifecycle.Part{
		{Name: "enrolment key", Run: s.key.Run},
		{Name: "gathering", Run: s.gathering.Run},
		{Name: "ingress grpc", Run: s.listener.Run},
	}
	if s.front != nil {
		parts = append(parts, lifecycle.Part{Name: "behind ingress rest", Run: s.behindREST.Run}, lifecycle.Part{Name: "ingress rest", Run: s.front.Run})
	}
	return append(parts, lifecycle.Part{Name: "ingress prover", Run: s.prover.Run}, lifecycle.Part{Name: "membership", Run: s.membership.Run})
}

// addresses are where it listens; empty for what it does not serve.
func (s *controlServer) addresses() (grpcAddr, restAddr string) {
	if s == nil {
		return "", ""
	}
	if s.front != nil {
		restAddr = s.front.Addr()
	}
	return s.listener.Addr(), restAddr
}

// show answers health checks: on the agents' listener whether agents should come, on our own whether that listener does its work.
func (s *controlServer) show(health *health) {
	takes := s.service.TakesAgents()
	s.listener.SetServing("", takes)
	s.listener.SetServing(IngressHealthService, takes)
	health.show()
}

// ready returns why the agents' listener does not do its work. Agents are served without the registry too: they are told to come again.
// Being in maintenance, as operators want it, is no reason.
func (s *controlServer) ready() error {
	if s.membership.Standing() == ingress.Refused {
		return errors.New("the cloud of control servers refuses this one; the log says why")
	}
	return s.evidence.Reached()
}

// checks are what only /readyz?verbose shows.
func (s *controlServer) checks() []telemetry.Check {
	if s == nil {
		return nil
	}
	return []telemetry.Check{{Name: "cloud of control servers", Informs: true, Problem: func() error {
		if s.membership.Standing() == ingress.Joining {
			return errors.New("the cloud of control servers did not answer yet")
		}
		return nil
	}}, {Name: "direct heartbeats", Informs: true, Problem: func() error {
		if s.membership.Standing() == ingress.Maintenance {
			return nil
		}
		return s.evidence.Listening()
	}}}
}

// close ends what will not run; what ran has ended.
func (s *controlServer) close() {
	if s == nil {
		return
	}
	if s.listener != nil {
		s.listener.Close()
	}
	if s.front != nil {
		s.front.Close()
	}
}

// cloud narrows the generated client to what control servers call.
type cloud struct {
	client registryv1.ControlCloudClient
}

func (c cloud) RenewControlServer(ctx context.Context, request *registryv1.RenewControlServerRequest) (*registryv1.RenewControlServerResponse, error) {
	return c.client.RenewControlServer(ctx, request)
}

func (c cloud) LeaveCloud(ctx context.Context, request *registryv1.LeaveCloudRequest) (*registryv1.LeaveCloudResponse, error) {
	return c.client.LeaveCloud(ctx, request)
}

func (c cloud) GetFailoverList(ctx context.Context, request *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error) {
	return c.client.GetFailoverList(ctx, request)
}

// faced tells the faces of one process apart in the metrics.
func faced(metrics prometheus.Registerer, face string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"face": face}, metrics)
}

// release is the version that an image's build was told, by -ldflags. Empty: what the build knows of itself.
var release string

// version is the software's.
func version() string {
	text := release
	if built, ok := debug.ReadBuildInfo(); ok && text == "" {
		text = built.Main.Version
	}
	return text[:min(len(text), maxVersion)]
}
