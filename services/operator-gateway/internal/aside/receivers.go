package aside

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Registry takes the reports; registryv1.AgentRegistryClient is one.
type Registry interface {
	ReportCommandAnswer(ctx context.Context, request *registryv1.ReportCommandAnswerRequest, options ...grpc.CallOption) (*registryv1.ReportCommandAnswerResponse, error)
}

// mostSentAge is the oldest command that the registry takes a report of.
const mostSentAge = time.Hour

// Receivers tells the registry whether agents answer commands over Service Bus. Both fields are required.
type Receivers struct {
	Registry Registry
	Logger   *slog.Logger

	Aside
}

// Answered tells that an agent answered a command which was sent so long ago, or that it did not.
func (r *Receivers) Answered(agent string, answered bool, sentAge time.Duration) {
	taken := r.Do(func(ctx context.Context) {
		_, err := r.Registry.ReportCommandAnswer(ctx, &registryv1.ReportCommandAnswerRequest{
			Name: agent, Answered: answered, SentAge: durationpb.New(min(sentAge, mostSentAge)),
		})
		if err != nil {
			r.Logger.Warn("an answer, or its lack, could not be reported to the registry", "agent", agent, "answered", answered, "error", err)
		}
	})
	if !taken {
		r.Logger.Warn("an answer, or its lack, is not reported to the registry, since many are being reported", "agent", agent, "answered", answered)
	}
}

// AnsweredLate tells that an agent answered after all.
func (r *Receivers) AnsweredLate(agent string) { r.Answered(agent, true, 0) }
