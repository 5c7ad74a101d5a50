// Package verification finds out whether an agent really answers at its base URL, and repeats that now and then.
package verification

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/aside"
)

const (
	pingTimeout = 5 * time.Second
	// claimInterval is how often due verifications are asked for, and claimTimeout how long they are ours.
	claimInterval = time.Minute
	claimTimeout  = time.Minute
	// claimLimit is how many are claimed and pinged at once. Claiming goes on while there is so much due.
	claimLimit = 20
)

// Registry is what is called; registryv1.AgentRegistryClient is one, narrowed.
type Registry interface {
	RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error)
	ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error)
}

// Verifier pings agents. All exported fields are required.
type Verifier struct {
	// Client carries no credential.
	Client   *http.Client
	Registry Registry
	Logger   *slog.Logger
	// RepeatInterval is after what time a verification that succeeded is repeated.
	RepeatInterval time.Duration

	disproofs aside.Aside
}

// Verify pings an agent and records what that showed, unless its base URL was changed meanwhile or something newer is known.
// The ping carries no credential: the URL is not verified yet.
func (v *Verifier) Verify(ctx context.Context, agent *registryv1.Agent) (agenthttp.Pong, *registryv1.RecordHttpVerificationResponse, error) {
	began := time.Now()
	pong := v.ping(ctx, agent)
	recorded, err := v.record(ctx, agent.GetName(), agent.GetHttpBaseUrl(), pong, began)
	return pong, recorded, err
}

func (v *Verifier) ping(ctx context.Context, agent *registryv1.Agent) agenthttp.Pong {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return agenthttp.Ping(ctx, v.Client, "", agent.GetName(), agent.GetHttpBaseUrl())
}

// record tells how old the pong is, so that what was seen later is not overwritten.
func (v *Verifier) record(ctx context.Context, name, baseURL string, pong agenthttp.Pong, began time.Time) (*registryv1.RecordHttpVerificationResponse, error) {
	outcome := registryv1.VerificationOutcome_VERIFICATION_OUTCOME_FAILED
	if pong.Succeeded {
		outcome = registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED
	}
	return v.Registry.RecordHttpVerification(ctx, &registryv1.RecordHttpVerificationRequest{
		Name: name, HttpBaseUrl: baseURL, Outcome: outcome, Detail: pong.Detail,
		Age: durationpb.New(time.Since(began)),
	})
}

// Disprove records, beside the request that found it, that a base URL could not be connected to. One that is dropped is found failing
// again.
func (v *Verifier) Disprove(name, baseURL, detail string) {
	began := time.Now()
	taken := v.disproofs.Do(func(ctx context.Context) {
		if _, err := v.record(ctx, name, baseURL, agenthttp.Pong{Detail: detail}, began); err != nil {
			v.Logger.Warn("a failed connection could not be recorded", "agent", name, "error", err)
		}
	})
	if !taken {
		v.Logger.Warn("a failed connection is not recorded, since many are being recorded", "agent", name)
	}
}

// Repeat verifies again what is due, until the context ends. The registry hands out each agent to one replica.
func (v *Verifier) Repeat(ctx context.Context) error {
	defer v.disproofs.Wait()
	for {
		timer := time.NewTimer(claimInterval/2 + rand.N(claimInterval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			for v.repeatDue(ctx) == claimLimit && ctx.Err() == nil {
			}
		}
	}
}

// repeatDue verifies some of what is due, and tells how many those were.
func (v *Verifier) repeatDue(ctx context.Context) int {
	claimed, err := v.Registry.ClaimHttpVerifications(ctx, &registryv1.ClaimHttpVerificationsRequest{
		RepeatInterval: durationpb.New(v.RepeatInterval), ClaimTimeout: durationpb.New(claimTimeout), Limit: claimLimit,
	})
	if err != nil {
		v.Logger.Warn("due verifications could not be claimed", "error", err)
		return 0
	}
	var group sync.WaitGroup
	for _, agent := range claimed.GetAgents() {
		group.Go(func() {
			pong, _, err := v.Verify(ctx, agent)
			v.Logger.Info("HTTP verified again", "agent", agent.GetName(), "succeeded", pong.Succeeded, "detail", pong.Detail, "error", err)
		})
	}
	group.Wait()
	return len(claimed.GetAgents())
}
