package rpc

import (
	"fmt"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// secondWriterShown is how long another writer is reminded of after it was last seen.
const secondWriterShown = 24 * time.Hour

// banners say for people what is unusual, worst first.
func banners(o store.Overview, mode availabilityv1.Mode) []string {
	found := nobodySweeps(o.Lease, mode)
	if stepped := o.Clock.Banner(o.ReadAt); stepped != "" {
		found = append(found, stepped)
	}
	found = append(found, registrySilent(o.Paths)...)
	for _, tell := range []func(verdict.Path, store.Path) string{frozen, skewed, braked, ordered} {
		for path, p := range o.Paths {
			if text := tell(verdict.Path(path), p); text != "" {
				found = append(found, text)
			}
		}
	}
	if !o.SecondWriterAt.IsZero() && o.ReadAt.Sub(o.SecondWriterAt) < secondWriterShown {
		found = append(found, fmt.Sprintf("Another writer than this service changed Online, last at %s. The two undo each other's work: switch the other one off.", clock(o.SecondWriterAt)))
	}
	switch mode {
	case availabilityv1.Mode_MODE_OFF:
		found = append(found, "Mode off: this replica computes and writes nothing.")
	case availabilityv1.Mode_MODE_OBSERVE:
		found = append(found, "Mode observe: verdicts are computed and shown; Online and the offline log are left to whoever writes them now.")
	}
	return found
}

// unwritable is worse than all others: what operators and the job decide comes to nothing.
func unwritable(problem error) []string {
	if problem == nil {
		return nil
	}
	return []string{fmt.Sprintf("The database cannot be written: %v. Online, verdicts and maintenance stay as they are, and what is shown grows old.", problem)}
}

// nobodySweeps is the worst: what is shown grows old, and nothing follows it.
func nobodySweeps(lease store.Lease, mode availabilityv1.Mode) []string {
	if lease.Holder != "" {
		return nil
	}
	switch mode {
	case availabilityv1.Mode_MODE_OWN:
		return []string{"Nobody holds the availability job: Online follows neither heartbeats nor maintenance, and what is shown grows old. See the logs of the availability service's replicas."}
	case availabilityv1.Mode_MODE_OBSERVE:
		return []string{"Nobody holds the availability job: what is shown grows old. See the logs of the availability service's replicas."}
	}
	return nil
}

// registrySilent is said once: without the registry every path is frozen for the same reason.
func registrySilent(paths verdict.PerPath[store.Path]) []string {
	var since time.Time
	for _, p := range paths {
		if p.Blind == verdict.NoRegistry && (since.IsZero() || p.State.FrozenSince.Before(since)) {
			since = p.State.FrozenSince
		}
	}
	if since.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("All paths are frozen, since %s: the registry does not answer. Only maintenance is carried out.", clock(since))}
}

// frozen is silent about a path that nobody is heard on: there is nobody to hold.
func frozen(path verdict.Path, p store.Path) string {
	if p.State.FrozenSince.IsZero() || p.Blind == verdict.NoRegistry || p.Crowd.Online+p.Held == 0 {
		return ""
	}
	if !p.StartingUntil.IsZero() {
		return fmt.Sprintf("The %s path is starting, until %s (%s): it has to prove itself after a start or an outage, and agents may need as long to come back. "+
			"Until then no server whose agent is heard on it goes offline for silence, and %s. Recoveries and maintenance are carried out.",
			path, clock(p.StartingUntil), p.Blind, held(p.Held))
	}
	return fmt.Sprintf("The %s path has been frozen since %s (%s): nobody heard on it is turned offline for silence, and %s. Recoveries and maintenance are carried out.",
		path, clock(p.State.FrozenSince), p.Blind, held(p.Held))
}

func braked(path verdict.Path, p store.Path) string {
	brake := p.State.Brake
	if !p.Braked || brake.Order == verdict.Hold {
		return ""
	}
	return fmt.Sprintf("The %s path has been braked since %s: %d of its %d online servers fell silent together, and %s. "+
		"The brake lets go after further sweeps that prove the path (%d so far); an operator can turn them offline now (apply) or keep them online (hold).",
		path, clock(brake.Since), p.Crowd.Silent, p.Crowd.Online, held(p.Held), brake.Proofs)
}

func ordered(path verdict.Path, p store.Path) string {
	switch p.State.Brake.Order {
	case verdict.Hold:
		return fmt.Sprintf("%s ordered at %s that nobody heard on the %s path is turned offline for silence, until the order is taken back; %s.",
			p.OrderedBy, clock(p.OrderedAt), path, held(p.Held))
	case verdict.Apply:
		return fmt.Sprintf("%s ordered at %s that the servers silent on the %s path are turned offline; the next sweep in which the path is not frozen does so.",
			p.OrderedBy, clock(p.OrderedAt), path)
	}
	return ""
}

func held(servers int) string {
	if servers == 1 {
		return "1 silent server stays online"
	}
	return fmt.Sprintf("%d silent servers stay online", servers)
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }
