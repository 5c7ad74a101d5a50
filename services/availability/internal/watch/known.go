package watch

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
)

// everything is what a new watcher is told: the overview, each server by key, and that this was all.
func (k *known) everything() []*Event {
	events := []*Event{overviewEvent(k.overview)}
	for _, key := range slices.Sorted(maps.Keys(k.servers)) {
		events = append(events, serverEvent(k.servers[key]))
	}
	return append(events, &Event{Event: &availabilityv1.WatchAvailabilityResponse_SnapshotComplete{
		SnapshotComplete: &availabilityv1.SnapshotComplete{Servers: int32(len(k.servers))},
	}})
}

// learn keeps these servers, and returns those that differ from what was known.
func (k *known) learn(servers []*availabilityv1.ServerAvailability) []*Event {
	if k.servers == nil {
		k.servers = make(map[int64]*availabilityv1.ServerAvailability, len(servers))
	}
	var differences []*Event
	for _, server := range servers {
		if before, ok := k.servers[server.GetServerKey()]; ok && proto.Equal(before, server) {
			continue
		}
		k.servers[server.GetServerKey()] = server
		differences = append(differences, serverEvent(server))
	}
	return differences
}

// forgetAllBut forgets the servers that are gone, and returns them.
func (k *known) forgetAllBut(servers []*availabilityv1.ServerAvailability) []*Event {
	present := make(map[int64]bool, len(servers))
	for _, server := range servers {
		present[server.GetServerKey()] = true
	}
	var gone []*Event
	for _, key := range slices.Sorted(maps.Keys(k.servers)) {
		if present[key] {
			continue
		}
		delete(k.servers, key)
		gone = append(gone, &Event{Event: &availabilityv1.WatchAvailabilityResponse_ServerGone{ServerGone: &availabilityv1.ServerGone{ServerKey: key}}})
	}
	return gone
}

func (k *known) learnOverview(overview *availabilityv1.Overview) []*Event {
	if proto.Equal(k.overview, overview) {
		return nil
	}
	k.overview = overview
	return []*Event{overviewEvent(overview)}
}

func serverEvent(server *availabilityv1.ServerAvailability) *Event {
	return &Event{Event: &availabilityv1.WatchAvailabilityResponse_Server{Server: server}}
}

func overviewEvent(overview *availabilityv1.Overview) *Event {
	return &Event{Event: &availabilityv1.WatchAvailabilityResponse_Overview{Overview: overview}}
}
