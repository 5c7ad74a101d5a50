package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// Overview is how the job goes.
type Overview struct {
	ReadAt         time.Time // the database's clock
	Lease          Lease     // zero: nobody holds it
	Paths          verdict.PerPath[Path]
	SecondWriterAt time.Time // newest; zero: never
	Revision       int64     // grows with everything that is shown and changes
	Clock          dbclock.State
}

// Overview reads how the job goes.
func (s *Store) Overview(ctx context.Context) (Overview, error) {
	var overview Overview
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		overview, err = readOverview(ctx, tx)
		return err
	})
	return overview, err
}

func readOverview(ctx context.Context, tx *sqldb.Tx) (Overview, error) {
	at, err := readState(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	overview := Overview{ReadAt: at.now, SecondWriterAt: at.secondWriterAt, Revision: at.revision}
	if overview.Lease, _, err = readLease(ctx, tx); err != nil {
		return Overview{}, err
	}
	if overview.Clock, _, err = readClock(ctx, tx); err != nil {
		return Overview{}, err
	}
	overview.Paths, err = readPaths(ctx, tx)
	return overview, err
}

// Acts grows with every operator's act.
func (s *Store) Acts(ctx context.Context) (int64, error) {
	at, err := readState(ctx, s.db)
	return at.acts, err
}

// Filter chooses servers.
type Filter struct {
	Keys        []int64                // empty: all
	Verdicts    []verdict.Availability // empty: all, and those not judged yet
	Held        int                    // -1 any, 0 no, 1 yes
	Maintenance int                    // likewise
	Disagrees   int                    // likewise: whether Online is not as decided
	Query       string                 // part of the name, any case
	States      []verdict.State        // empty: all
}

// args are the filter's parameters, which all statements of statuses have.
func (f Filter) args() []any {
	var verdicts strings.Builder
	for _, v := range f.Verdicts {
		verdicts.WriteByte(byte('0' + v))
	}
	return []any{
		named("verdicts", verdicts.String()), named("held", f.Held), named("maintenance", f.Maintenance), named("disagrees", f.Disagrees),
		named("codes", codesOf(f.States)), named("query", spelling.Fold(f.Query)),
	}
}

// Statuses reads a page of servers by key, those after a key, and reports whether more follow. Those not judged yet are there too.
func (s *Store) Statuses(ctx context.Context, filter Filter, limit int, afterKey int64) (servers []Server, more bool, err error) {
	if filter.Query != "" {
		s.names.Look(ctx)
	}
	args := append(filter.args(), named("limit", limit+1), named("afterKey", afterKey))
	statement := "statuses"
	if len(filter.Keys) > 0 {
		keys, err := batch("keys", filter.Keys)
		if err != nil {
			return nil, false, err
		}
		statement, args = "statuses_of_keys", append(args, keys)
	}
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		servers, err = readServers(ctx, tx, statement, args...)
		return err
	})
	if len(servers) > limit {
		return servers[:limit], true, err
	}
	return servers, false, err
}

// codesOf lists the codes of the states' facts, between commas; empty: all.
func codesOf(states []verdict.State) string {
	if len(states) == 0 {
		return ""
	}
	var codes strings.Builder
	for _, code := range verdict.Codes(states...) {
		fmt.Fprintf(&codes, ",%d", code)
	}
	return codes.String() + ","
}

// StatusCursor is where a page of statuses ended: the last row's key, and its sort value where the list is not in the order of keys.
type StatusCursor struct {
	Sort string `json:"s,omitempty"`
	Key  int64  `json:"k"`
}

// SortedStatuses reads a page of servers in an order (by key, name, verdict or since), and where the next one begins (nil on the last).
// The order of keys is read along the table's own; the others sort what the filter chooses.
func (s *Store) SortedStatuses(ctx context.Context, filter Filter, order paging.Order, limit int, after *StatusCursor) (servers []Server, next *StatusCursor, err error) {
	if after == nil {
		after = &StatusCursor{}
	}
	if len(filter.Keys) > 0 || order == (paging.Order{By: "key"}) {
		servers, more, err := s.Statuses(ctx, filter, limit, after.Key)
		if more {
			next = &StatusCursor{Key: servers[len(servers)-1].Key}
		}
		return servers, next, err
	}
	s.names.Look(ctx)
	args := append(filter.args(), named("limit", limit+1), named("sort", order.By), named("descending", flagOf(order.Descending)),
		named("afterSort", after.Sort), named("afterKey", after.Key))
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		servers, next = nil, nil
		var last StatusCursor
		return tx.Rows(ctx, "statuses_sorted", func(scan func(...any) error) error {
			var sort string
			server, err := scanServer(scan, &sort)
			if len(servers) == limit {
				next = &StatusCursor{last.Sort, last.Key}
				return err
			}
			servers, last = append(servers, server), StatusCursor{sort, server.Key}
			return err
		}, args...)
	})
	return servers, next, err
}

// ChangedSince reads the servers that show something new since a revision.
func (s *Store) ChangedSince(ctx context.Context, revision int64) (servers []Server, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		servers, err = readServers(ctx, tx, "statuses_since", named("revision", revision))
		return err
	})
	return servers, err
}

func readServers(ctx context.Context, from reader, statement string, args ...any) ([]Server, error) {
	var servers []Server
	err := from.Rows(ctx, statement, func(scan func(...any) error) error {
		server, err := scanServer(scan)
		servers = append(servers, server)
		return err
	}, args...)
	return servers, err
}

func scanServer(scan func(...any) error, extra ...any) (Server, error) {
	var row serverRow
	var turned switchRow
	err := scan(append(append(row.dest(), turned.dest()...), extra...)...)
	server := row.value()
	server.Switch = turned.value()
	return server, err
}

// StatusOf reads one server by name.
func (s *Store) StatusOf(ctx context.Context, name string) (Server, error) {
	s.names.Refresh(ctx)
	var server Server
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		server, err = s.judgedServer(ctx, tx, name)
		return err
	})
	return server, err
}

// judgedServer finds the server of a name, which must be of a type that is judged.
func (s *Store) judgedServer(ctx context.Context, from reader, name string) (Server, error) {
	server, kind, err := s.oneServer(ctx, from, name)
	if err == nil && !strings.EqualFold(strings.TrimRight(kind, " "), ServerType) { // a char column pads it
		return Server{}, &ServerTypeError{Name: server.Name, Type: kind}
	}
	return server, err
}

// oneServer finds the server of a name, of any type; several of it are an error, since none can be meant.
func (s *Store) oneServer(ctx context.Context, from reader, name string) (found Server, kind string, err error) {
	var keys []int64
	take := func(scan func(...any) error) error {
		var text sqldb.String
		server, err := scanServer(scan, &text)
		if err == nil && spelling.Same(server.Name, name) && !slices.Contains(keys, server.Key) {
			found, kind, keys = server, string(text), append(keys, server.Key)
		}
		return err
	}
	if err := from.Rows(ctx, "servers_by_name", take, servernames.Args(name)...); err != nil {
		return Server{}, "", err
	}
	unfolded, err := s.names.Unfolded(ctx, from, name)
	if err != nil {
		return Server{}, "", err
	}
	for _, key := range unfolded {
		if err := from.Rows(ctx, "server_by_key", take, named("serverKey", key)); err != nil {
			return Server{}, "", err
		}
	}
	switch len(keys) {
	case 0:
		return Server{}, "", &ServerNotFoundError{Name: name}
	case 1:
		return found, kind, nil
	}
	slices.Sort(keys)
	return Server{}, "", &ServerAmbiguousError{Name: name, Keys: keys}
}

// PruneStatuses removes what is stored of servers that vanished from TblServer. It holds the lease as Record does.
func (s *Store) PruneStatuses(ctx context.Context, token int64) error {
	return s.db.Change(ctx, func(tx *sqldb.Tx) error {
		if _, _, err := hold(ctx, tx, token, 0); err != nil {
			return err
		}
		for _, statement := range []string{"prune_statuses", "prune_switches", "prune_windows"} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
