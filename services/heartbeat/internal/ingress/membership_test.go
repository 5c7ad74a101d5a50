package ingress

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

type fakeCloud struct {
	mu       sync.Mutex
	state    registryv1.ControlServerState
	warnings []string
	err      error
	renewals []time.Time
	left     int
}

func (c *fakeCloud) RenewControlServer(context.Context, *registryv1.RenewControlServerRequest) (*registryv1.RenewControlServerResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals = append(c.renewals, time.Now())
	if c.err != nil {
		return nil, c.err
	}
	return &registryv1.RenewControlServerResponse{State: c.state, Warnings: c.warnings}, nil
}

func (c *fakeCloud) LeaveCloud(context.Context, *registryv1.LeaveCloudRequest) (*registryv1.LeaveCloudResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	return nil, c.err
}

func (c *fakeCloud) says(state registryv1.ControlServerState, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.err = state, err
}

func refusal(reason fault.Reason) error { return fault.New(reason, "held by cs-2").GRPCStatus().Err() }

func TestStandingFollowsTheCloud(t *testing.T) {
	down := status.Error(codes.Unavailable, "down")
	synctest.Test(t, func(t *testing.T) {
		cloud, log := &fakeCloud{warnings: []string{"mixed versions"}}, &bytes.Buffer{}
		m := NewMembership(cloud, &registryv1.RenewControlServerRequest{Name: "cs-1"}, time.Minute, time.Second, slog.New(slog.NewTextHandler(log, nil)))
		cloud.says(0, down)
		if err := m.Join(t.Context()); err != nil || m.Standing() != Joining {
			t.Fatalf("without the registry: %v, standing %d", err, m.Standing())
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		for i, step := range []struct {
			state registryv1.ControlServerState
			err   error
			want  Standing
		}{
			{0, down, Joining},
			{registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL, nil, Serving},
			{0, down, Serving},
			{registryv1.ControlServerState_CONTROL_SERVER_STATE_DRAINING, nil, Draining},
			{0, status.Error(codes.DeadlineExceeded, "slow"), Draining},
			{registryv1.ControlServerState_CONTROL_SERVER_STATE_MAINTENANCE, nil, Maintenance},
			{0, down, Maintenance},
			{registryv1.ControlServerState_CONTROL_SERVER_STATE_SUSPECT, nil, Serving},
			{0, refusal(fault.NameTaken), Refused},
			{0, down, Refused},
			{99, nil, Serving}, // a state of tomorrow
			{0, refusal(fault.ProtocolsApart), Refused},
			{0, refusal(fault.EndpointTaken), Refused},
			{0, refusal(fault.PermissionDenied), Refused}, // about our token, not about our place
			{registryv1.ControlServerState_CONTROL_SERVER_STATE_EVICTED, nil, Serving},
			{0, refusal(fault.Unauthenticated), Serving},
		} {
			cloud.says(step.state, step.err)
			time.Sleep(renewInterval) // of the bubble's time
			synctest.Wait()
			if got := m.Standing(); got != step.want {
				t.Errorf("step %d: standing %d, wanted %d", i, got, step.want)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for i := 1; i < len(cloud.renewals); i++ {
			if gap := cloud.renewals[i].Sub(cloud.renewals[i-1]); gap != renewInterval {
				t.Errorf("renewed after %s", gap)
			}
		}
		if cloud.left != 1 {
			t.Errorf("left %d times", cloud.left)
		}
		if n := strings.Count(log.String(), "mixed versions"); n != 1 {
			t.Errorf("the warning is logged %d times", n)
		}
	})
}

func TestAStopWaitsForItsAgentsAndNoLonger(t *testing.T) {
	for name, row := range map[string]struct {
		agents int
		go_    bool
		want   time.Duration
	}{
		"nobody is there": {0, false, 0},
		"all are told":    {2, true, time.Second},
		"some don't call": {2, false, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &fakeCloud{}
				m := NewMembership(cloud, &registryv1.RenewControlServerRequest{Name: "cs-1"}, time.Hour, 10*time.Second, slog.New(slog.DiscardHandler))
				if err := m.Join(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i := range row.agents {
					m.present.add(hash{byte(i)}, time.Now())
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.Run(ctx) }()
				synctest.Wait()
				stop()
				began := time.Now()
				synctest.Wait()
				if cloud.left != 1 || m.Standing() != Draining {
					t.Errorf("left %d times, standing %d", cloud.left, m.Standing())
				}
				if row.go_ {
					time.Sleep(time.Second) // of the bubble's time
					m.present.leave(hash{0})
					m.present.leave(hash{1})
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != row.want {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// One that is not in the cloud leaves nothing: another has its name.
func TestOneThatIsRefusedDoesNotLeaveForTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{}
		m := NewMembership(cloud, &registryv1.RenewControlServerRequest{Name: "cs-1"}, time.Hour, 10*time.Second, slog.New(slog.DiscardHandler))
		if err := m.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		cloud.says(0, refusal(fault.NameTaken))
		time.Sleep(renewInterval) // of the bubble's time
		synctest.Wait()
		stop()
		if err := <-ended; err != nil || cloud.left != 0 || m.Standing() != Refused {
			t.Errorf("%v, left %d times, standing %d", err, cloud.left, m.Standing())
		}
	})
}
