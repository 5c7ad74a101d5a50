package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

const (
	// evidenceLifetime is how long a proof of listening counts.
	evidenceLifetime = 15 * time.Second
	// maxBacklog is the age of the oldest message from which a path is behind: half of the default maximum heartbeat age.
	maxBacklog = 45 * time.Second
	// forgetConsumers is when a consumer that ended is forgotten.
	forgetConsumers = time.Hour
)

// Evidence is one consumer's proof of listening. Nil: it had none to show.
type Evidence struct {
	Path             enrollment.Path
	Consumer         string
	CanaryRoundTrip  *time.Duration
	OldestMessageAge *time.Duration
	SinceLastReceive *time.Duration
}

func (e Evidence) good() bool {
	return e.CanaryRoundTrip != nil && e.OldestMessageAge != nil && *e.OldestMessageAge < maxBacklog
}

// Health says whether a path's ears work.
type Health struct {
	Healthy bool
	Since   time.Time // without a gap; zero when not healthy
	Detail  string
}

// ReportEvidence stores a consumer's proof and returns what it makes of the path.
func (s *Store) ReportEvidence(ctx context.Context, evidence Evidence) (Health, error) {
	var health Health
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		args := []any{
			named("path", int(evidence.Path)), named("consumer", evidence.Consumer), named("now", sqldb.Text(at)), named("good", flagOf(evidence.good())),
			named("canary", milliseconds(evidence.CanaryRoundTrip)), named("oldest", milliseconds(evidence.OldestMessageAge)),
			named("received", milliseconds(evidence.SinceLastReceive)),
		}
		updated, err := tx.Exec(ctx, "evidence_update", append(args, named("gapBefore", sqldb.Text(at.Add(-evidenceLifetime))))...)
		if err != nil {
			return err
		}
		if updated == 0 {
			if _, err := tx.Exec(ctx, "evidence_insert", args...); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "evidence_prune", named("before", sqldb.Text(at.Add(-forgetConsumers)))); err != nil {
				return err
			}
		}
		health, err = readHealth(ctx, tx, evidence.Path, at)
		return err
	})
	return health, err
}

func milliseconds(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return d.Milliseconds()
}

// noPath is a path nobody proves.
const noPath = 0

var neverReported = Health{Detail: "no consumer of heartbeats ever reported"}

// proof is what one consumer showed last; without alive there is none.
type proof struct {
	alive, since   sqldb.Time
	canary, oldest any
}

// healthy tells whether the consumer is heard and proves itself.
func (p *proof) healthy(at time.Time) bool { return p.fresh(at) && !p.since.IsZero() }

func (p *proof) fresh(at time.Time) bool { return at.Sub(p.alive.Time) < evidenceLifetime }

func (p *proof) dest() []any { return []any{&p.alive, &p.since, &p.canary, &p.oldest} }

func readHealth(ctx context.Context, tx *sqldb.Tx, path enrollment.Path, at time.Time) (Health, error) {
	health := neverReported
	err := tx.Rows(ctx, "evidence", func(scan func(...any) error) error {
		var proof proof
		err := scan(proof.dest()...)
		health = health.with(proof, at)
		return err
	}, named("path", int(path)))
	return health, err
}

// with takes one more consumer into account. A path is healthy while at least one proves itself; since when, the longest of them
// tells.
func (h Health) with(p proof, at time.Time) Health {
	switch {
	case p.alive.IsZero():
	case p.healthy(at):
		if !h.Healthy || p.since.Before(h.Since) {
			return Health{Healthy: true, Since: p.since.Time}
		}
	case h.Healthy:
	case p.fresh(at) && p.canary == nil:
		h.Detail = "a consumer reports, but no canary came back through it"
	case p.fresh(at):
		h.Detail = "a consumer reports, but its backlog is too old or cannot be read"
	default:
		h.Detail = fmt.Sprintf("no consumer of heartbeats reported within %s", evidenceLifetime)
	}
	return h
}

// ClaimVerifications hands out agents whose verification is due, each to one caller until its claim lapses.
func (s *Store) ClaimVerifications(ctx context.Context, repeatInterval, claimTimeout time.Duration, limit int) ([]Agent, error) {
	var claimed []Agent
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		claimed = nil
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		var keys []string
		err = tx.Rows(ctx, "claim_verifications", func(scan func(...any) error) error {
			var key string
			err := scan(&key)
			keys = append(keys, key)
			return err
		}, named("claimedUntil", sqldb.Text(at.Add(claimTimeout))), named("dueBefore", sqldb.Text(at.Add(-repeatInterval))),
			named("now", sqldb.Text(at)), named("limit", limit))
		if err != nil {
			return err
		}
		for _, key := range keys {
			agent, err := readAgent(ctx, tx, enrollment.Name{Spelling: key, Key: key})
			if err != nil {
				return err
			}
			claimed = append(claimed, agent)
		}
		return nil
	})
	return claimed, err
}

func isNotFound(err error) bool {
	var missing *AgentNotFoundError
	return errors.As(err, &missing)
}
