package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

const (
	// proofInterval is how often a canary is sent, seekingInterval while none came back.
	proofInterval, seekingInterval = 5 * time.Second, time.Second
	// proofTimeout bounds a canary's way, and a report.
	proofTimeout = 5 * time.Second
	// canaryMaxAge is how long a canary that came back counts.
	canaryMaxAge = 15 * time.Second
)

// Reporter takes evidence; registryv1.AgentRegistryClient is one but for its options.
type Reporter interface {
	ReportIngestEvidence(ctx context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error)
}

// Prover shows the registry that agents who call are heard.
//
// Its canary is a Ping over a new connection to the own gRPC listener, where agents call. From there it waits among the heartbeats to be
// gathered, and when its batch's turn at the registry comes, it brings the evidence there: that earlier canaries came back. While
// heartbeats cannot be recorded it fails. So one small call every 5 s goes the whole way that heartbeats go, and stores no heartbeat
// of an agent that does not exist. The REST listener is not proven: it ends the process if it fails.
type Prover struct {
	Evidence   *Evidence
	Gathering  *Gathering
	Membership *Membership
	Reporter   Reporter
	Metrics    *Metrics
	Logger     *slog.Logger
	// Address is where the own gRPC listener is bound, TLS whether it wants that.
	Address string
	TLS     bool
	// Proved is called after each try.
	Proved func()
}

// Run goes on until the context ends.
func (p *Prover) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := p.prove(ctx)
		if ctx.Err() != nil {
			return nil
		}
		interval := proofInterval
		if err != nil {
			interval = seekingInterval
			if !failed {
				p.Logger.Warn("the direct path is not proven; it is tried again", "error", err)
			}
		}
		failed = err != nil
		p.Proved()
		timer.Reset(interval)
	}
}

// prove sends a canary. If it could not bring the report, that is brought directly: the registry is to know that we are there.
func (p *Prover) prove(ctx context.Context) error {
	if why := p.Membership.Standing().turnsAway(); why != "" {
		bounded, cancel := context.WithTimeout(p.Evidence.canary(ctx), proofTimeout)
		defer cancel()
		_ = p.ping(bounded) // it is turned away, as agents are, and shows that the listener does that
		return p.Report(ctx)
	}
	bounded, cancel := context.WithTimeout(p.Evidence.canary(ctx), proofTimeout)
	defer cancel()
	first := p.Evidence.Listening() != nil
	began := time.Now()
	err := p.ping(bounded)
	took := time.Since(began)
	p.Evidence.came(took, err)
	if err != nil {
		return errors.Join(err, p.Report(ctx))
	}
	p.Metrics.Canary.Set(took.Seconds())
	if first { // the registry heard that none had come back; it is told at once that one has
		return p.Report(ctx)
	}
	return nil
}

// Report tells the registry what there is to show.
func (p *Prover) Report(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	if _, err := p.Reporter.ReportIngestEvidence(bounded, p.Evidence.request(p.Gathering.Oldest(), p.Membership.Standing())); err != nil {
		return fmt.Errorf("evidence could not be reported to the registry: %w", err)
	}
	return nil
}

// ping calls the own listener. Its certificate is for the names agents use, not for this address, and need not be checked: that it is
// this process shows by its knowing the canary.
func (p *Prover) ping(ctx context.Context) error {
	transport := insecure.NewCredentials()
	if p.TLS {
		transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient("passthrough:///"+reachable(p.Address), grpc.WithTransportCredentials(transport), grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = heartbeatv1.NewAgentIngressClient(conn).Ping(ctx, &heartbeatv1.PingRequest{})
	return err
}

// reachable is an address at which this process reaches its own listener: one on every interface is on loopback too.
func reachable(bound string) string {
	at, err := netip.ParseAddrPort(bound)
	if err != nil || !at.Addr().IsUnspecified() {
		return bound
	}
	return net.JoinHostPort("localhost", fmt.Sprint(at.Port()))
}
