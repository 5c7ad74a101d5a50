package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Fleet is what decides about servers' availability, as one statement reads it.
type Fleet struct {
	ReadAt      time.Time // the database's clock
	Bus, Direct PathEvidence
	Servers     []FleetServer // each once, by key
}

// PathEvidence says how well a path is listened to.
type PathEvidence struct {
	Health
	ReportedAt time.Time     // newest report of any consumer; zero: none ever did
	Backlog    time.Duration // age of the oldest message, as the newest healthy report told it; 0: none
	HeardAt    time.Time     // newest heartbeat of any agent in any state; zero: none
}

// FleetServer is the agent that is linked to a server, or was. TblServer is not asked: a server that vanished from it is told of too.
type FleetServer struct {
	Key                     int64
	Agent                   string
	State                   enrollment.State // zero when removed
	Removed                 bool             // the link ended, and there is no other
	Astray                  bool             // the agent of the server's name is linked to a row of another name, or to one that is gone
	LastBusAt, LastDirectAt time.Time
	HTTPBaseURL             string
	HTTPVerified            bool // it answered when it was last verified
}

// Kinds of the rows of the statement fleet.
const (
	clockRow  = iota + 1 // first: now
	proofRow             // key: path; first, second: alive, healthy since; numbers: canary's round trip, oldest message's age
	agentRow             // key: server, 0 if none is linked; first, second: newest heartbeat over the bus, direct; numbers: state, verification
	formerRow            // key: server whose link ended
	skewRow              // key: path; first: alive; numbers: how far the broker's clock is ahead, and how far that may be wrong
	seenRow              // first: the latest that was seen of the database's clock
	astrayRow            // key: server whose name an agent has that is linked to no server of its name; first number: its state
)

type fleetRow struct {
	kind, key                 int64
	first, second             sqldb.Time
	firstNumber, secondNumber any
	agent, baseURL            sqldb.String
}

func (r *fleetRow) dest() []any {
	return []any{&r.kind, &r.key, &r.first, &r.second, &r.firstNumber, &r.secondNumber, &r.agent, &r.baseURL}
}

func (r *fleetRow) proof() proof {
	return proof{alive: r.first, since: r.second, canary: r.firstNumber, oldest: r.secondNumber}
}

func (r *fleetRow) server() FleetServer {
	return FleetServer{
		Key: r.key, Agent: string(r.agent), State: enrollment.State(number(r.firstNumber)), Removed: r.kind == formerRow,
		LastBusAt: r.first.Time, LastDirectAt: r.second.Time, HTTPBaseURL: string(r.baseURL), HTTPVerified: number(r.secondNumber) == 1,
	}
}

// number reads a number that may be NULL, as zero.
func number(value any) int64 {
	known, _ := value.(int64)
	return known
}

// Fleet reads the whole fleet. The statement is over when it returns, however long the caller then takes to send it on.
func (s *Store) Fleet(ctx context.Context) (Fleet, error) {
	s.names.Look(ctx) // each sweep asks, so that what another codebase writes is folded soon
	fleet, seen, err := s.readFleet(ctx)
	if err != nil || !seen.Unseen(fleet.ReadAt) {
		return fleet, err
	}
	// The clock was stepped back and what is stored is not mended yet: judged by it, servers long dead would be alive.
	if _, err := s.LookAtClock(ctx); err != nil {
		return Fleet{}, err
	}
	fleet, _, err = s.readFleet(ctx)
	return fleet, err
}

func (s *Store) readFleet(ctx context.Context) (Fleet, dbclock.State, error) {
	var fleet Fleet
	var seen dbclock.State
	var row fleetRow
	proofs, skews := map[int64][]proof{}, map[int64][]fleetRow{}
	dest := row.dest()
	err := s.db.Rows(ctx, "fleet", func(scan func(...any) error) error {
		if err := scan(dest...); err != nil {
			return err
		}
		switch row.kind {
		case clockRow:
			fleet.ReadAt = row.first.Time
		case seenRow:
			seen.SeenAt = row.first.Time
		case proofRow:
			proofs[row.key] = append(proofs[row.key], row.proof())
		case skewRow:
			skews[row.key] = append(skews[row.key], row)
		case astrayRow:
			fleet.Servers = append(fleet.Servers, FleetServer{Key: row.key, Agent: string(row.agent), State: enrollment.State(number(row.firstNumber)), Astray: true})
		case agentRow, formerRow:
			fleet.Bus.HeardAt, fleet.Direct.HeardAt = later(fleet.Bus.HeardAt, row.first.Time), later(fleet.Direct.HeardAt, row.second.Time)
			if row.key != 0 {
				fleet.Servers = append(fleet.Servers, row.server())
			}
		}
		return nil
	})
	if err != nil {
		return Fleet{}, seen, err
	}
	fleet.Bus = fleet.Bus.with(proofs[int64(enrollment.Bus)], fleet.ReadAt)
	fleet.Direct = fleet.Direct.with(proofs[int64(enrollment.Direct)], fleet.ReadAt)
	fleet.Bus.BrokerSkew = newestSkew(skews[int64(enrollment.Bus)], fleet.ReadAt)
	fleet.Servers = eachOnce(fleet.Servers)
	return fleet, seen, nil
}

// newestSkew is the newest measurement that still counts; nil: there is none.
func newestSkew(rows []fleetRow, at time.Time) *Skew {
	var proofs []proof
	for _, row := range rows {
		proofs = append(proofs, proof{alive: row.first, ahead: row.firstNumber, within: row.secondNumber})
	}
	return healthOf(proofs, at).BrokerSkew
}

// with adds what the proofs of the path's consumers say together.
func (e PathEvidence) with(proofs []proof, at time.Time) PathEvidence {
	e.Health = healthOf(proofs, at)
	var healthyAt time.Time
	for _, p := range proofs {
		e.ReportedAt = later(e.ReportedAt, p.alive.Time)
		if p.healthy(at) && p.alive.After(healthyAt) {
			healthyAt, e.Backlog = p.alive.Time, time.Duration(number(p.oldest))*time.Millisecond
		}
	}
	return e
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// rank is what counts first of what is told of a server: its link, the agent that should be linked, the link that ended.
func rank(s FleetServer) int64 { return 2*flagOf(s.Removed) + flagOf(s.Astray) }

// eachOnce orders servers by key. Of a server that is linked and noted as removed the link counts: the release before left such notes
// behind, and where a statement sees no snapshot, as on SQL Server, a link may move while it is read.
func eachOnce(servers []FleetServer) []FleetServer {
	slices.SortFunc(servers, func(a, b FleetServer) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(rank(a), rank(b)))
	})
	return slices.CompactFunc(servers, func(a, b FleetServer) bool { return a.Key == b.Key })
}
