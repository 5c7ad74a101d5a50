package store

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// state is the one row that every transaction with something to show moves on. It is read before what it tells about, so that an
// act in between shows as a newer one later, and is never missed.
type state struct {
	revision, acts int64
	secondWriterAt time.Time
	now            time.Time // the database's clock
}

func readState(ctx context.Context, from reader) (state, error) {
	var at state
	var second, now sqldb.Time
	err := from.Rows(ctx, "state", func(scan func(...any) error) error {
		return scan(&at.revision, &at.acts, &second, &now)
	})
	at.secondWriterAt, at.now = second.Time, now.Time
	return at, err
}

// Fleet reads what one sweep needs to know.
func (s *Store) Fleet(ctx context.Context) (Fleet, error) {
	var fleet Fleet
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		at, err := readState(ctx, tx)
		if err != nil {
			return err
		}
		fleet = Fleet{ReadAt: at.now, Acts: at.acts, Servers: make([]Server, 0, s.servers.Load())}
		if fleet.Paths, err = readPaths(ctx, tx); err != nil {
			return err
		}
		if fleet.Windows, err = readWindows(ctx, tx, "windows"); err != nil {
			return err
		}
		switches := map[int64]Switch{}
		err = tx.Rows(ctx, "switches", func(scan func(...any) error) error {
			var key int64
			var row switchRow
			err := scan(append([]any{&key}, row.dest()...)...)
			switches[key] = row.value()
			return err
		})
		if err != nil {
			return err
		}
		var row serverRow
		dest := row.dest()
		return tx.Rows(ctx, "fleet", func(scan func(...any) error) error {
			if err := scan(dest...); err != nil {
				return err
			}
			server := row.value()
			server.Switch = switches[server.Key]
			fleet.Servers = append(fleet.Servers, server)
			return nil
		})
	})
	s.servers.Store(int64(len(fleet.Servers)))
	return fleet, err
}

// serverRow scans a server with its status, if it has one.
type serverRow struct {
	key                            int64
	name                           string
	online                         sqldb.Int
	verdict, decided, maintenance  sqldb.Int
	heldPath, heardPath            sqldb.Int
	reason, detail, held           sqldb.String
	heardAt, since, secondWriterAt sqldb.Time
}

func (r *serverRow) dest() []any {
	return []any{
		&r.key, &r.name, &r.online, &r.verdict, &r.reason, &r.detail, &r.decided, &r.maintenance, &r.held, &r.heldPath, &r.heardAt, &r.heardPath,
		&r.since, &r.secondWriterAt,
	}
}

func (r *serverRow) value() Server {
	server := Server{Key: r.key, Name: r.name, Online: r.online == 1, Detail: string(r.detail), SecondWriterAt: r.secondWriterAt.Time}
	if r.reason == "" {
		return server
	}
	server.Status = verdict.Status{
		Key: r.key, Online: r.decided == 1, Maintenance: r.maintenance == 1,
		Verdict: verdict.Verdict{
			Availability: verdict.Availability(r.verdict), Reason: verdict.Reason(r.reason), HeardAt: r.heardAt.Time, Path: verdict.Path(r.heardPath),
		},
		Held: verdict.Holding(r.held), HeldPath: verdict.Path(r.heldPath), Since: r.since.Time,
	}
	return server
}
