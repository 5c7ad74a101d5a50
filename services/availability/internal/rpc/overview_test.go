package rpc

import (
	"testing"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func (s *service) overview(t *testing.T) *availabilityv1.Overview {
	t.Helper()
	response, err := s.GetOverview(t.Context(), &availabilityv1.GetOverviewRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetOverview()
}

func TestOverviewShowsHolderAndPaths(t *testing.T) {
	s := serve(t)
	empty := s.overview(t)
	if empty.GetMode() != availabilityv1.Mode_MODE_OWN || empty.GetHolder() != "" || empty.GetLeaseExpiresAt() != nil || len(empty.GetBanners()) != 1 {
		t.Errorf("nobody swept yet: %v", empty)
	}
	lease := s.lead(t)
	s.record(t, lease, verdict.PerPath[store.Path]{verdict.Direct: {
		State: verdict.PathState{FrozenSince: noon, Brake: verdict.Brake{Since: noon, Proofs: 2, JudgedAt: noon}},
		Blind: verdict.IngestDown, Braked: true, Crowd: verdict.Crowd{Online: 10, Silent: 6}, Held: 6,
	}})
	got := s.overview(t)
	if got.GetHolder() != "replica-1" || got.GetLeaseExpiresAt() == nil || len(got.GetPaths()) != 2 || len(got.GetBanners()) != 2 {
		t.Fatalf("%v", got)
	}
	path := got.GetPaths()[1]
	if path.GetPath() != registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT || path.GetBlind() != "ingest not healthy" || !path.GetBraked() ||
		!path.GetFrozenSince().AsTime().Equal(noon) || !path.GetBrakeSince().AsTime().Equal(noon) || path.GetBrakeProofs() != 2 ||
		path.GetServersOnline() != 10 || path.GetServersSilent() != 6 || path.GetServersHeld() != 6 || path.GetEtag() == "" {
		t.Errorf("%v", path)
	}
}

func TestI14_OfTwoOrdersAboutABrakeOneIsTold(t *testing.T) {
	s := serve(t)
	order := func(path registryv1.HeartbeatPath, order availabilityv1.BrakeOrder, etag string) (*availabilityv1.PathStatus, error) {
		response, err := s.OrderBrake(t.Context(), &availabilityv1.OrderBrakeRequest{Path: path, Order: order, Etag: etag, Actor: "alice"})
		return response.GetPath(), err
	}
	bus := registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS
	current := s.overview(t).GetPaths()[0].GetEtag()
	_, err := order(bus, availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD, "")
	if found := refused(t, err, fault.EtagRequired, "send its etag"); found.CurrentEtag != current {
		t.Errorf("the current etag is %q, told %q", current, found.CurrentEtag)
	}
	held, err := order(bus, availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD, current)
	if err != nil || held.GetOrder() != availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD || held.GetOrderedBy() != "alice" || held.GetOrderedAt() == nil || held.GetEtag() == current {
		t.Fatal(held, err)
	}
	_, err = order(bus, availabilityv1.BrakeOrder_BRAKE_ORDER_APPLY, current)
	if found := refused(t, err, fault.StaleEtag, "nothing was changed"); found.CurrentEtag != held.GetEtag() {
		t.Errorf("the current etag is %q, told %q", held.GetEtag(), found.CurrentEtag)
	}
	if shown := s.overview(t).GetPaths(); shown[0].GetOrder() != availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD || shown[1].GetOrder() != 0 {
		t.Errorf("%v", shown)
	}
	back, err := order(bus, availabilityv1.BrakeOrder_BRAKE_ORDER_NONE, held.GetEtag())
	if err != nil || back.GetOrder() != availabilityv1.BrakeOrder_BRAKE_ORDER_UNSPECIFIED || back.GetOrderedBy() != "" {
		t.Error(back, err)
	}
	_, err = order(0, availabilityv1.BrakeOrder_BRAKE_ORDER_NONE, "x")
	invalid(t, err, "/path", "")
	_, err = order(bus, 0, "x")
	invalid(t, err, "/order", "")
}

func TestTheSecondWriterIsShown(t *testing.T) {
	s := serve(t, "BM-1")
	lease := s.lead(t)
	if _, err := s.store.Record(t.Context(), store.Sweep{
		Token: lease.Token, Own: true, LeaseDuration: time.Hour,
		Statuses: []store.Status{{Status: judged(1, true, verdict.Available, verdict.HeartbeatFresh)}}, SecondWriters: []int64{1},
	}); err != nil {
		t.Fatal(err)
	}
	got := s.overview(t)
	server, err := s.GetAvailability(t.Context(), &availabilityv1.GetAvailabilityRequest{Server: "BM-1"})
	if err != nil || got.GetSecondWriterAt() == nil || server.GetServer().GetSecondWriterAt() == nil {
		t.Error(got, server, err)
	}
}
