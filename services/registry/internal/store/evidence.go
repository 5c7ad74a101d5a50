package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
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
	BrokerSkew       *Skew // of the broker's clock; bus only
}

// Skew is how far a clock is ahead of the database's, negative when it is behind, and how far that may be wrong either way.
type Skew struct{ Ahead, Within time.Duration }

// Notable reports whether a clock differs by more than it should, however wrong the measurement is.
func (s *Skew) Notable() bool { return s != nil && s.Ahead.Abs()-s.Within > dbclock.Tolerance }

// String says how far the clock is from "the database's", which follows it.
func (s *Skew) String() string {
	if s.Ahead < 0 {
		return (-s.Ahead).Round(100*time.Millisecond).String() + " behind"
	}
	return s.Ahead.Round(100*time.Millisecond).String() + " ahead of"
}

func (s *Skew) ahead() any {
	if s == nil {
		return nil
	}
	return s.Ahead.Milliseconds()
}

func (s *Skew) within() any {
	if s == nil {
		return nil
	}
	return s.Within.Milliseconds()
}

// skewOf reads a skew as it is stored; nil: none was measured.
func skewOf(ahead, within any) *Skew {
	if ahead == nil {
		return nil
	}
	return &Skew{time.Duration(number(ahead)) * time.Millisecond, time.Duration(number(within)) * time.Millisecond}
}

func (e Evidence) good() bool {
	return e.CanaryRoundTrip != nil && e.OldestMessageAge != nil && *e.OldestMessageAge < maxBacklog
}

// Health says whether a path's ears work.
type Health struct {
	Healthy bool
	Since   time.Time // without a gap; zero when not healthy
	Detail  string
	// BrokerSkew is the newest that any consumer measured; nil: none did lately.
	BrokerSkew *Skew
	skewAt     time.Time
}

// ReportEvidence stores a consumer's proof and returns what it makes of the path, and what the database's clock read.
func (s *Store) ReportEvidence(ctx context.Context, evidence Evidence) (health Health, at time.Time, err error) {
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		if at, err = now(ctx, tx); err != nil {
			return err
		}
		args := []any{
			named("path", int(evidence.Path)), named("consumer", evidence.Consumer), named("now", sqldb.Text(at)), named("good", flagOf(evidence.good())),
			named("canary", milliseconds(evidence.CanaryRoundTrip)), named("oldest", milliseconds(evidence.OldestMessageAge)),
			named("received", milliseconds(evidence.SinceLastReceive)),
			named("brokerAhead", evidence.BrokerSkew.ahead()), named("brokerAheadWithin", evidence.BrokerSkew.within()),
		}
		updated, err := tx.Exec(ctx, "evidence_update", append(args, named("gapBefore", sqldb.Text(at.Add(-evidenceLifetime))),
			named("aheadAfter", sqldb.Text(at.Add(dbclock.Tolerance))))...)
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
	return health, at, err
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
	ahead, within  any // of the broker's clock
}

// healthy tells whether the consumer is heard and proves itself.
func (p *proof) healthy(at time.Time) bool { return p.fresh(at) && !p.since.IsZero() }

// fresh reports whether the consumer reported lately. A report from the future proves nothing: the clock was stepped since.
func (p *proof) fresh(at time.Time) bool {
	age := at.Sub(p.alive.Time)
	return age < evidenceLifetime && age > -dbclock.Tolerance
}

func (p *proof) dest() []any {
	return []any{&p.alive, &p.since, &p.canary, &p.oldest, &p.ahead, &p.within}
}

func readHealth(ctx context.Context, tx *sqldb.Tx, path enrollment.Path, at time.Time) (Health, error) {
	var proofs []proof
	err := tx.Rows(ctx, "evidence", func(scan func(...any) error) error {
		var proof proof
		err := scan(proof.dest()...)
		proofs = append(proofs, proof)
		return err
	}, named("path", int(path)))
	return healthOf(proofs, at), err
}

// healthOf is what a path's consumers say together. Where none proves itself the newest report tells why, whatever order they were read in.
func healthOf(proofs []proof, at time.Time) Health {
	health := neverReported
	for _, p := range slices.SortedFunc(slices.Values(proofs), proof.compare) {
		health = health.with(p, at)
	}
	return health
}

// compare orders reports by when they were made; those of one instant, so that the order is one.
func (p proof) compare(other proof) int {
	return cmp.Or(p.alive.Compare(other.alive.Time), p.since.Compare(other.since.Time), cmp.Compare(number(p.canary), number(other.canary)),
		cmp.Compare(number(p.oldest), number(other.oldest)), cmp.Compare(number(p.ahead), number(other.ahead)))
}

// with takes one more consumer into account. A path is healthy while at least one proves itself; since when, the longest of them
// tells.
func (h Health) with(p proof, at time.Time) Health {
	if skew := skewOf(p.ahead, p.within); skew != nil && p.fresh(at) && p.alive.After(h.skewAt) {
		h.BrokerSkew, h.skewAt = skew, p.alive.Time
	}
	switch {
	case p.alive.IsZero():
	case p.healthy(at):
		if !h.Healthy || p.since.Before(h.Since) {
			h.Healthy, h.Since, h.Detail = true, p.since.Time, ""
		}
	case h.Healthy:
	case p.fresh(at) && p.canary == nil:
		h.Detail = "a consumer reports, but no canary came back through it"
	case p.fresh(at) && p.oldest != nil && number(p.oldest) < maxBacklog.Milliseconds():
		h.Detail = "the database's clock was stepped, and consumers have to prove themselves again"
	case p.fresh(at):
		h.Detail = "a consumer reports, but its backlog is too old or cannot be read"
	default:
		h.Detail = fmt.Sprintf("no consumer of heartbeats reported within %s", evidenceLifetime)
	}
	return h
}

// ClaimVerifications hands out agents whose verification is due, each to one caller until its claim lapses. A claim that lapses later than any
// could is of a clock that was stepped; one that lapses a little later than this caller's is of one that read the clock after it.
func (s *Store) ClaimVerifications(ctx context.Context, repeatInterval, claimTimeout time.Duration, limit int) ([]Agent, error) {
	var claimed []Agent
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		claimed = nil
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		keys, err := claim(ctx, tx, limit, named("claimedUntil", sqldb.Text(at.Add(claimTimeout))), named("stepped", sqldb.Text(at.Add(2*claimTimeout))), named("dueBefore", sqldb.Text(at.Add(-repeatInterval))),
			named("now", sqldb.Text(at)))
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

// claimAttempts bounds how often a caller picks again what it lost to others. Each time at least one of those that picked the same got all of it.
const claimAttempts = 16

// claim marks up to limit agents as this caller's, and returns the keys of their names. Callers at once skip each other's rows where the database
// has locks to tell them by; where it has not, the row that another marked first comes back as NULL, and others are picked.
func claim(ctx context.Context, tx *sqldb.Tx, limit int, args ...any) (keys []string, err error) {
	for range claimAttempts {
		lost := 0
		err := tx.Rows(ctx, "claim_verifications", func(scan func(...any) error) error {
			var key sqldb.String
			err := scan(&key)
			if key == "" {
				lost++
			} else {
				keys = append(keys, string(key))
			}
			return err
		}, append(args, named("limit", limit-len(keys)))...)
		if err != nil || lost == 0 {
			return keys, err
		}
	}
	return keys, nil
}

func isNotFound(err error) bool {
	var missing *AgentNotFoundError
	return errors.As(err, &missing)
}
