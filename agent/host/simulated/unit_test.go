package simulated

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// What the state does not allow is told apart from what was tried and failed, and is not half done: a service that is disabled while it
// runs is not stopped by a restart.
func TestWhatTheStateDoesNotAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New("BM-1", Options{})
		find(h.services, "Spooler").startType = agentv1.ServiceStartType_SERVICE_START_TYPE_DISABLED
		h.Hang("W3SVC")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if failure(h.StopService(ctx, "W3SVC")) == nil {
			t.Fatal("it did not hang")
		}
		before := services(t, h)
		for name, err := range map[string]error{
			"service RemoteRegistry: it is disabled":         failure(h.StartService(t.Context(), "RemoteRegistry")),
			"service Spooler: it is disabled":                failure(h.RestartService(t.Context(), "Spooler")),
			"application pool Legacy.Classic: it is stopped": failure(h.RecycleAppPool(t.Context(), "Legacy.Classic")),
			"service W3SVC: it was still in STOP_PENDING":    failure(h.StartService(ctx, "W3SVC")),
		} {
			var state *host.StateError
			if !errors.As(err, &state) || !strings.HasPrefix(err.Error(), name) || !strings.HasSuffix(err.Error(), "; nothing was done") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after := services(t, h); !slices.EqualFunc(before, after, func(a, b *agentv1.Service) bool { return proto.Equal(a, b) }) {
			t.Errorf("what was not possible changed\n%v\nto\n%v", before, after)
		}
	})
}

func failure(_ []*agentv1.Change, err error) error { return err }

func services(t *testing.T, h *Host) []*agentv1.Service {
	t.Helper()
	found, err := h.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}
