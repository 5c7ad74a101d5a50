package rpc

import (
	"slices"
	"strings"
	"testing"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/dbclock"
)

func TestBanners(t *testing.T) {
	const own, observe, off = availabilityv1.Mode_MODE_OWN, availabilityv1.Mode_MODE_OBSERVE, availabilityv1.Mode_MODE_OFF
	held := store.Lease{Holder: "replica-1", ExpiresAt: noon.Add(30 * time.Second)}
	path := func(change func(*store.Path)) verdict.PerPath[store.Path] {
		p := store.Path{Crowd: verdict.Crowd{Online: 100}}
		change(&p)
		return verdict.PerPath[store.Path]{verdict.Bus: p}
	}
	frozen := func(p *store.Path) {
		p.State.FrozenSince, p.Blind, p.Held = noon, verdict.IngestBehind, 12
	}
	braked := func(p *store.Path) {
		p.State.Brake, p.Braked, p.Held, p.Crowd = verdict.Brake{Since: noon, Proofs: 1}, true, 60, verdict.Crowd{Online: 100, Silent: 60}
	}
	order := func(order verdict.Order) func(*store.Path) {
		return func(p *store.Path) {
			p.State.Brake.Order, p.OrderedBy, p.OrderedAt, p.Braked = order, "alice", noon, order == verdict.Hold
		}
	}
	for name, c := range map[string]struct {
		o    store.Overview
		mode availabilityv1.Mode
		want []string // each a part of its banner
	}{
		"all is well":                 {store.Overview{Lease: held}, own, nil},
		"nobody holds the job":        {store.Overview{}, own, []string{"Nobody holds the availability job: Online follows"}},
		"nobody observes":             {store.Overview{}, observe, []string{"Nobody holds the availability job: what is shown", "Mode observe"}},
		"off":                         {store.Overview{}, off, []string{"Mode off"}},
		"off, but another is at work": {store.Overview{Lease: held, Paths: path(frozen)}, off, []string{"bus path has been frozen", "Mode off"}},
		"frozen": {store.Overview{Lease: held, Paths: path(frozen)}, own, []string{
			"The bus path has been frozen since 2026-11-30 12:00:00 UTC (backlog older than half of the maximum heartbeat age): " +
				"nobody heard on it is turned offline for silence, and 12 silent servers stay online.",
		}},
		"starting": {store.Overview{Lease: held, Paths: path(func(p *store.Path) {
			frozen(p)
			p.Blind, p.StartingUntil = verdict.IngestRestarted, noon.Add(3*time.Minute)
		})}, own, []string{
			"The bus path is starting, until 2026-11-30 12:03:00 UTC (ingest healthy for less than the maximum heartbeat age): it has to prove itself",
		}},
		"frozen, and nobody is heard on it": {store.Overview{Lease: held, Paths: path(func(p *store.Path) {
			frozen(p)
			p.Crowd, p.Held = verdict.Crowd{}, 0
		})}, own, nil},
		"registry unreachable, said once": {store.Overview{Lease: held, Paths: verdict.PerPath[store.Path]{
			{Blind: verdict.NoRegistry, State: verdict.PathState{FrozenSince: noon}, Held: 3},
			{Blind: verdict.NoRegistry, State: verdict.PathState{FrozenSince: noon.Add(-time.Hour)}},
		}}, own, []string{"All paths are frozen, since 2026-11-30 11:00:00 UTC: the registry does not answer."}},
		"braked": {store.Overview{Lease: held, Paths: path(braked)}, own, []string{
			"The bus path has been braked since 2026-11-30 12:00:00 UTC: 60 of its 100 online servers fell silent together, and 60 silent servers stay online. " +
				"The brake lets go after further sweeps that prove the path (1 so far); an operator can turn them offline now (apply) or keep them online (hold).",
		}},
		"held by an operator": {store.Overview{Lease: held, Paths: path(func(p *store.Path) { braked(p); order(verdict.Hold)(p) })}, own, []string{
			"alice ordered at 2026-11-30 12:00:00 UTC that nobody heard on the bus path is turned offline for silence, until the order is taken back; 60 silent servers stay online.",
		}},
		"applied by an operator": {store.Overview{Lease: held, Paths: path(func(p *store.Path) { braked(p); order(verdict.Apply)(p) })}, own, []string{
			"alice ordered at 2026-11-30 12:00:00 UTC that the servers silent on the bus path are turned offline",
		}},
		"one server": {store.Overview{Lease: held, Paths: path(func(p *store.Path) { frozen(p); p.Held = 1 })}, own, []string{"1 silent server stays online"}},
		"another writer": {store.Overview{Lease: held, ReadAt: noon.Add(time.Hour), SecondWriterAt: noon}, own, []string{
			"Another writer than this service changed Online, last at 2026-11-30 12:00:00 UTC.",
		}},
		"the clock was stepped": {store.Overview{Lease: held, ReadAt: noon.Add(time.Minute), Clock: dbclock.State{SteppedAt: noon, Step: -time.Hour}}, own, []string{
			"The database's clock was stepped back by 1h0m0s, at 2026-11-30 12:00:00 UTC by its new time.",
		}},
		"the broker's clock is behind": {store.Overview{Lease: held, Paths: path(func(p *store.Path) { p.Broker.Ahead = -time.Minute })}, own, []string{
			"The broker's clock is 1m0s behind the database's, as heartbeats on the bus path show.",
		}},
		"braked while the broker's clock is ahead": {store.Overview{Lease: held, Paths: path(func(p *store.Path) { braked(p); p.Broker.Ahead = 90 * time.Second })}, own, []string{
			"Look whether the silent servers are down before the brake is applied", "The bus path has been braked",
		}},
		"another writer, long ago": {store.Overview{Lease: held, ReadAt: noon.Add(24 * time.Hour), SecondWriterAt: noon}, own, nil},
		"all at once, worst first": {store.Overview{ReadAt: noon, SecondWriterAt: noon, Paths: verdict.PerPath[store.Path]{
			verdict.Bus:    path(func(p *store.Path) { braked(p); frozen(p) })[verdict.Bus],
			verdict.Direct: path(func(p *store.Path) { frozen(p); order(verdict.Hold)(p) })[verdict.Bus],
		}}, observe, []string{
			"Nobody holds", "The bus path has been frozen", "The direct path has been frozen", "The bus path has been braked",
			"alice ordered at", "Another writer", "Mode observe",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := banners(c.o, c.mode)
			if !slices.EqualFunc(got, c.want, func(got, want string) bool { return strings.Contains(got, want) }) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
