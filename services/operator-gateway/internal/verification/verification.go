// Package verification finds out whether an agent really answers at its base URL, and repeats that now and then.
package verification

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

const (
	pingTimeout = 5 * time.Second
	// maxPongBytes bounds what is read of a ping's answer.
	maxPongBytes = 64 << 10
	// claimInterval is how often due verifications are asked for, and claimTimeout how long they are ours.
	claimInterval = time.Minute
	claimTimeout  = time.Minute
	// claimLimit is how many are claimed and pinged at once. Claiming goes on while there is so much due.
	claimLimit = 20
	// mostDisproofs are recorded at once; a URL that fails beyond that is found failing again.
	mostDisproofs = 32
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

	disproving atomic.Int64
	disproofs  sync.WaitGroup
}

// Finding is what a ping showed.
type Finding struct {
	Succeeded  bool
	AnsweredAs string
	Detail     string
}

// Ping asks whoever is at the base URL for its name. It carries no credential: the URL is not verified yet.
func (v *Verifier) Ping(ctx context.Context, name, baseURL string) Finding {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	base, err := agenthttp.ParseBaseURL(baseURL)
	if err != nil {
		return Finding{Detail: "the base URL " + err.Error()}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+"/agent/v1/ping", nil)
	if err != nil {
		return Finding{Detail: err.Error()}
	}
	response, err := v.Client.Do(request)
	if err != nil {
		return Finding{Detail: "no answer: " + err.Error()}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxPongBytes+1))
	switch {
	case err != nil:
		return Finding{Detail: "the answer broke off: " + err.Error()}
	case response.StatusCode != http.StatusOK:
		return Finding{Detail: fmt.Sprintf("answers HTTP %d instead of 200", response.StatusCode)}
	case len(raw) > maxPongBytes:
		return Finding{Detail: fmt.Sprintf("answers with more than %d bytes", maxPongBytes)}
	}
	pong := &agentv1.PingResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, pong); err != nil {
		return Finding{Detail: "the answer is no PingResponse: " + err.Error()}
	}
	if !spelling.Same(pong.GetName(), name) {
		return Finding{AnsweredAs: pong.GetName(), Detail: fmt.Sprintf("answers as %q, not as %q", pong.GetName(), name)}
	}
	return Finding{Succeeded: true, AnsweredAs: pong.GetName(), Detail: fmt.Sprintf("answers as %q", pong.GetName())}
}

// Verify pings an agent and records what that showed, unless its base URL was changed meanwhile or something newer is known.
func (v *Verifier) Verify(ctx context.Context, agent *registryv1.Agent) (Finding, *registryv1.RecordHttpVerificationResponse, error) {
	began := time.Now()
	finding := v.Ping(ctx, agent.GetName(), agent.GetHttpBaseUrl())
	recorded, err := v.record(ctx, agent.GetName(), agent.GetHttpBaseUrl(), finding, began)
	return finding, recorded, err
}

// record tells how old the finding is, so that what was seen later is not overwritten.
func (v *Verifier) record(ctx context.Context, name, baseURL string, finding Finding, began time.Time) (*registryv1.RecordHttpVerificationResponse, error) {
	outcome := registryv1.VerificationOutcome_VERIFICATION_OUTCOME_FAILED
	if finding.Succeeded {
		outcome = registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED
	}
	return v.Registry.RecordHttpVerification(ctx, &registryv1.RecordHttpVerificationRequest{
		Name: name, HttpBaseUrl: baseURL, Outcome: outcome, Detail: finding.Detail,
		Age: durationpb.New(time.Since(began)),
	})
}

// Disprove records, beside the request that found it, that a base URL could not be connected to. It is best effort.
func (v *Verifier) Disprove(name, baseURL, detail string) {
	if v.disproving.Add(1) > mostDisproofs {
		v.disproving.Add(-1)
		v.Logger.Warn("a failed connection is not recorded, since many are being recorded", "agent", name)
		return
	}
	began := time.Now()
	v.disproofs.Go(func() {
		defer v.disproving.Add(-1)
		ctx, cancel := agenthttp.Detached(context.Background())
		defer cancel()
		if _, err := v.record(ctx, name, baseURL, Finding{Detail: detail}, began); err != nil {
			v.Logger.Warn("a failed connection could not be recorded", "agent", name, "error", err)
		}
	})
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
			finding, _, err := v.Verify(ctx, agent)
			v.Logger.Info("HTTP verified again", "agent", agent.GetName(), "succeeded", finding.Succeeded, "detail", finding.Detail, "error", err)
		})
	}
	group.Wait()
	return len(claimed.GetAgents())
}
