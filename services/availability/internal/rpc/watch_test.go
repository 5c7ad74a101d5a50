package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// follower believes what a watch tells.
type follower struct {
	stream   grpc.ServerStreamingClient[availabilityv1.WatchAvailabilityResponse]
	reasons  map[int64]string
	overview *availabilityv1.Overview
	complete bool
}

func (s *service) follow(t *testing.T) *follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := s.WatchAvailability(ctx, &availabilityv1.WatchAvailabilityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return &follower{stream: stream, reasons: map[int64]string{}}
}

// until reads events until something is so; not to see it in time fails the test.
func (f *follower) until(t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		event, err := f.stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.GetEvent().(type) {
		case *availabilityv1.WatchAvailabilityResponse_Server:
			f.reasons[e.Server.GetServerKey()] = e.Server.GetReason()
		case *availabilityv1.WatchAvailabilityResponse_Overview:
			f.overview = e.Overview
		case *availabilityv1.WatchAvailabilityResponse_SnapshotComplete:
			f.complete = true
		case *availabilityv1.WatchAvailabilityResponse_ServerGone:
			delete(f.reasons, e.ServerGone.GetServerKey())
		}
	}
}

func TestAWatchTellsEverythingThenChanges(t *testing.T) {
	var names []string
	for i := range serversPerRead + 5 { // more than one page
		names = append(names, fmt.Sprintf("BM-%d", i))
	}
	s := serve(t, names...)
	lease := s.lead(t)
	s.record(t, lease, verdict.PerPath[store.Path]{}, judged(1, true, verdict.Available, verdict.HeartbeatFresh))
	f := s.follow(t)
	f.until(t, func() bool { return f.complete })
	if len(f.reasons) != len(names) || f.reasons[1] != "heartbeat fresh" || f.overview.GetHolder() != "replica-1" {
		t.Fatalf("%d servers, %q, %v", len(f.reasons), f.reasons[1], f.overview)
	}
	s.record(t, lease, verdict.PerPath[store.Path]{verdict.Bus: {State: verdict.PathState{FrozenSince: noon}, Blind: verdict.NoRegistry}},
		judged(1, false, verdict.Unavailable, verdict.HeartbeatSilent), judged(1005, true, verdict.Available, verdict.ProbeSucceeded))
	f.until(t, func() bool {
		return f.reasons[1] == "heartbeat silent" && f.reasons[1005] == "probe succeeded" && len(f.overview.GetBanners()) == 1
	})
}

// A watch forgets what everything does not hold any more.
func TestServersThatAreGoneAreNotRead(t *testing.T) {
	s := serve(t, "BM-1", "BM-2", "BM-3")
	s.record(t, s.lead(t), verdict.PerPath[store.Path]{}, judged(2, true, verdict.Available, verdict.HeartbeatFresh))
	s.run(t, `DELETE FROM TblServer WHERE ServerKey = 1`)
	s.run(t, `UPDATE TblServer SET Type = 'Other' WHERE ServerKey = 2`)
	from := &source{store: s.store, mode: availabilityv1.Mode_MODE_OWN}
	all, err := from.Servers(t.Context())
	if err != nil || len(all) != 1 || all[0].GetServerKey() != 3 {
		t.Error(all, err)
	}
	if since, err := from.ServersSince(t.Context(), 0); err != nil || len(since) != 0 {
		t.Error(since, err)
	}
}

// Watches that begin in the middle of many changes end with the same beliefs as the database, from its own revisions alone.
func TestAWatchLosesNoChange(t *testing.T) {
	const servers, sweeps = 40, 120
	var names []string
	for i := range servers {
		names = append(names, fmt.Sprintf("BM-%d", i+1))
	}
	s := serve(t, names...)
	lease := s.lead(t)
	wanted := map[int64]string{}
	var followers []*follower
	for sweep := range sweeps {
		if sweep%25 == 10 {
			followers = append(followers, s.follow(t)) // it begins while the next sweeps are written
		}
		var statuses []verdict.Status
		for i := range 5 {
			key := int64((sweep*5+i)%servers + 1)
			reason := verdict.Reason(fmt.Sprintf("sweep %d", sweep))
			statuses = append(statuses, judged(key, true, verdict.Available, reason))
			wanted[key] = string(reason)
		}
		s.record(t, lease, verdict.PerPath[store.Path]{}, statuses...)
	}
	for _, f := range followers {
		f.until(t, func() bool {
			for key, reason := range wanted {
				if f.reasons[key] != reason {
					return false
				}
			}
			return f.complete
		})
	}
}

// A stop is not held up by whoever watches, and each is told to watch again.
func TestAStopEndsWatchesFirst(t *testing.T) {
	s := serve(t, "BM-1")
	f := s.follow(t)
	f.until(t, func() bool { return f.complete })
	s.stopFeed()
	_, err := f.stream.Recv()
	if found := refused(t, err, fault.AvailabilityUnavailable, "watch again"); status.Code(err) != codes.Unavailable {
		t.Error(found)
	}
	late := s.follow(t)
	_, err = late.stream.Recv()
	refused(t, err, fault.AvailabilityUnavailable, "watch again")
	s.stopServer()
	select {
	case err := <-s.served:
		s.served <- err // for the cleanup
	case <-time.After(patience):
		t.Fatal("the server waits for its watches")
	}
}

func TestACallerEndsItsWatch(t *testing.T) {
	s := serve(t, "BM-1")
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.WatchAvailability(ctx, &availabilityv1.WatchAvailabilityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
