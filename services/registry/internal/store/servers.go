package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/textrule"
)

// Server is one row of TblServer.
type Server struct {
	Key             int64
	Name, URL, Type string
	Active, Online  bool
	Agent           string // name of the agent linked to it; empty when none
}

// Etag is a hash of what operators edit; Online takes no part.
func (s Server) Etag() string {
	encoded, _ := json.Marshal([]any{s.Key, s.Name, s.URL, s.Type, s.Active}) // cannot fail: texts, a number and a truth value
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:12])
}

func scanServer(scan func(...any) error, extra ...any) (Server, error) {
	var s Server
	var url, kind, agent sqldb.String
	var active, online sqldb.Int
	err := scan(append([]any{&s.Key, &s.Name, &url, &kind, &active, &online, &agent}, extra...)...)
	s.URL, s.Type, s.Agent, s.Active, s.Online = string(url), string(kind), string(agent), active == 1, online == 1
	return s, err
}

// serversByName reads all servers of a name, by key. What a name is, is decided here and not by the database (see servernames).
func (s *Store) serversByName(ctx context.Context, tx *sqldb.Tx, name string) ([]Server, error) {
	var servers []Server
	err := tx.Rows(ctx, "servers_by_name", func(scan func(...any) error) error {
		server, err := scanServer(scan)
		if spelling.Same(server.Name, name) {
			servers = append(servers, server)
		}
		return err
	}, servernames.Args(name)...)
	if err != nil {
		return nil, err
	}
	keys, err := s.names.Unfolded(ctx, tx, name)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if slices.ContainsFunc(servers, func(known Server) bool { return known.Key == key }) {
			continue
		}
		server, found, err := serverByKey(ctx, tx, key)
		if err != nil {
			return nil, err
		}
		if found {
			servers = append(servers, server)
		}
	}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.Key, b.Key) })
	return servers, nil
}

func serverByKey(ctx context.Context, tx *sqldb.Tx, key int64) (server Server, found bool, err error) {
	err = tx.Rows(ctx, "server_by_key", func(scan func(...any) error) error {
		found = true
		server, err = scanServer(scan)
		return err
	}, named("serverKey", key))
	return server, found, err
}

// ServerRef names one server: by its name, or by its key, for one of several that have one name.
type ServerRef struct {
	Name string
	Key  int64 // 0: by name
}

// server finds the one that is meant.
func (s *Store) server(ctx context.Context, tx *sqldb.Tx, ref ServerRef) (Server, error) {
	if ref.Key == 0 {
		return s.oneServer(ctx, tx, ref.Name)
	}
	server, found, err := serverByKey(ctx, tx, ref.Key)
	if err == nil && !found {
		err = &ServerNotFoundError{Key: ref.Key}
	}
	return server, err
}

// oneServer finds the server of a name; several of it are an error, since none can be meant.
func (s *Store) oneServer(ctx context.Context, tx *sqldb.Tx, name string) (Server, error) {
	servers, err := s.serversByName(ctx, tx, name)
	switch {
	case err != nil:
		return Server{}, err
	case len(servers) == 0:
		return Server{}, &ServerNotFoundError{Name: name}
	case len(servers) > 1:
		return Server{}, ambiguous(name, servers)
	}
	return servers[0], nil
}

func ambiguous(name string, servers []Server) error {
	found := &ServerAmbiguousError{Name: name}
	for _, server := range servers {
		found.Keys = append(found.Keys, server.Key)
	}
	return found
}

// Server reads one server.
func (s *Store) Server(ctx context.Context, ref ServerRef) (Server, error) {
	s.names.Refresh(ctx)
	var server Server
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		server, err = s.server(ctx, tx, ref)
		return err
	})
	return server, err
}

// ServerFilter chooses servers.
type ServerFilter struct {
	Type       string
	HasAgent   int // -1 any, 0 no, 1 yes
	Query      string
	Sort       string // name, url, type, key
	Descending bool
}

// Servers reads a page, where the next one begins (nil on the last), and how many there are on all pages.
func (s *Store) Servers(ctx context.Context, filter ServerFilter, limit int, after *Cursor) (servers []Server, next *Cursor, total int, err error) {
	if after == nil {
		after = &Cursor{}
		s.names.Look(ctx)
	}
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		servers, next, total = nil, nil, 0
		chosen := []any{named("type", filter.Type), named("hasAgent", filter.HasAgent), named("query", spelling.Fold(filter.Query)), named("urlQuery", strings.ToLower(filter.Query))}
		if _, err := tx.Row(ctx, "count_servers", []any{&total}, chosen...); err != nil {
			return err
		}
		var last Cursor
		return tx.Rows(ctx, "servers", func(scan func(...any) error) error {
			var sort string
			server, err := scanServer(scan, &sort)
			if len(servers) == limit {
				next = &Cursor{Sort: last.Sort, Key: last.Key}
				return err
			}
			servers, last = append(servers, server), Cursor{Sort: sort, Key: server.Key}
			return err
		}, append(chosen, named("sort", filter.Sort), named("descending", flagOf(filter.Descending)),
			named("afterSort", after.Sort), named("afterKey", after.Key), named("limit", limit+1))...)
	})
	return servers, next, total, err
}

// SettleNames prepares a call that asks for many servers by name.
func (s *Store) SettleNames(ctx context.Context) context.Context { return s.names.Settle(ctx) }

// CreateServer creates a server; a name that is taken is refused.
func (s *Store) CreateServer(ctx context.Context, server Server) (Server, error) {
	s.names.Refresh(ctx)
	var created Server
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		err := lockNames(ctx, tx, server.Name)
		if err == nil {
			created, err = s.createServer(ctx, tx, server)
		}
		return err
	})
	return created, err
}

// lockNames lets one transaction at a time decide what the servers of these names are: of two that created one name at once, each
// would see its own row only, and a link could be made while its server is renamed. Always in one order, so that none waits for
// another that waits for it. SQLite has one writer anyway.
func lockNames(ctx context.Context, tx *sqldb.Tx, names ...string) error {
	var resources []string
	for _, name := range names {
		sum := sha256.Sum256([]byte(spelling.Key(name))) // a resource has at most 255 characters
		resources = append(resources, "TblServer.Name "+hex.EncodeToString(sum[:]))
	}
	slices.Sort(resources)
	for _, resource := range slices.Compact(resources) {
		if err := lock(ctx, tx, resource); err != nil {
			return err
		}
	}
	return nil
}

// lock holds a resource until the transaction ends.
func lock(ctx context.Context, tx *sqldb.Tx, resource string) error {
	var outcome sqldb.Int
	if _, err := tx.Row(ctx, "lock_server_name", []any{&outcome}, named("resource", resource)); err != nil {
		return err
	}
	if outcome < 0 { // another held it too long, or two waited for each other
		return fmt.Errorf("lock_server_name: outcome %d: %w", outcome, sqldb.ErrConflict)
	}
	return nil
}

// createServer inserts and then looks again by name: the legacy import may have created the same server at the same moment.
func (s *Store) createServer(ctx context.Context, tx *sqldb.Tx, server Server) (Server, error) {
	existing, err := s.serversByName(ctx, tx, server.Name)
	if err != nil {
		return Server{}, err
	}
	if len(existing) > 0 {
		return Server{}, &NameTakenError{Kind: "server", Name: existing[0].Name}
	}
	if err := textrule.Name(server.Name); err != nil {
		return Server{}, &NewNameError{Name: server.Name, Rule: err}
	}
	columns := []string{"Name", "Url", "Type", "Active", "Online"}
	values := []any{
		named("p0", server.Name), named("p1", server.URL), named("p2", server.Type),
		named("p3", flagOf(server.Active)), named("p4", int64(0)),
	}
	for _, name := range sortedKeys(s.defaults) {
		columns = append(columns, name)
		values = append(values, named(fmt.Sprintf("p%d", len(values)), s.defaults[name]))
	}
	if err := tx.ExecText(ctx, s.insertServer(columns), values...); err != nil {
		return Server{}, taken(err, server.Name)
	}
	created, err := s.oneServer(ctx, tx, server.Name)
	if err != nil {
		return Server{}, err
	}
	return created, s.names.Note(ctx, tx, created.Key, created.Name)
}

// taken says that the table's own collation takes a name for one that it has.
func taken(err error, name string) error {
	if sqldb.Unique(err) {
		return &NameTakenError{Kind: "server", Name: name, Detail: ", or one whose name the database takes for the same"}
	}
	return err
}

// insertServer is the one statement that is put together: its columns come from configuration, checked at the start.
func (s *Store) insertServer(columns []string) string {
	table, open, end := "dbo.TblServer", "[", "]"
	if s.db.Dialect == sqldb.SQLite {
		table, open, end = "TblServer", `"`, `"`
	}
	var quoted, parameters []string
	for i, column := range columns {
		quoted = append(quoted, open+strings.ReplaceAll(column, end, end+end)+end)
		parameters = append(parameters, fmt.Sprintf("@p%d", i))
	}
	return "INSERT INTO " + table + " (" + strings.Join(quoted, ", ") + ") VALUES (" + strings.Join(parameters, ", ") + ")"
}

func sortedKeys(values map[string]string) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// ServerChange is what an operator changes; nil stays.
type ServerChange struct {
	Name, URL, Type *string
	Active          *bool
}

// UpdateServer changes a server whose etag is still the one given. A linked server's name changes in case only, or to its
// agent's name (I-18).
func (s *Store) UpdateServer(ctx context.Context, ref ServerRef, etag string, change ServerChange) (Server, error) {
	s.names.Refresh(ctx)
	var updated Server
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		locked := ref.Name
		if change.Name != nil {
			if ref.Key != 0 {
				present, err := s.server(ctx, tx, ref)
				if err != nil {
					return err
				}
				locked = present.Name
			}
			if err := lockNames(ctx, tx, locked, *change.Name); err != nil {
				return err
			}
		}
		current, err := s.server(ctx, tx, ref)
		if err != nil {
			return err
		}
		if change.Name != nil && !spelling.Same(locked, current.Name) {
			return sqldb.ErrConflict // it was renamed meanwhile: other names have to be locked
		}
		if err := checkEtag(etag, current.Etag()); err != nil {
			return err
		}
		next := current
		change.apply(&next)
		if err := s.allowRename(ctx, tx, current, next); err != nil {
			return err
		}
		if next == current {
			updated = current // what changes nothing runs no trigger that others may have put on the table
			return nil
		}
		// It returns its row, since a count would hold those of the triggers that others may have put on the table.
		var key int64
		found, err := tx.Row(ctx, "update_server", []any{&key}, named("serverKey", current.Key),
			named("name", current.Name), named("url", current.URL), named("type", current.Type), named("active", flagOf(current.Active)),
			named("newName", next.Name), named("newUrl", next.URL), named("newType", next.Type), named("newActive", flagOf(next.Active)),
			named("setName", flagOf(change.Name != nil)), named("setUrl", flagOf(change.URL != nil)), named("setType", flagOf(change.Type != nil)), named("setActive", flagOf(change.Active != nil)))
		if err != nil {
			return taken(err, next.Name)
		}
		if !found {
			return sqldb.ErrConflict // read anew, the etag will tell
		}
		updated, _, err = serverByKey(ctx, tx, current.Key)
		if err == nil && updated.Name != current.Name {
			err = s.names.Note(ctx, tx, updated.Key, updated.Name)
		}
		return err
	})
	return updated, err
}

func (c ServerChange) apply(server *Server) {
	for _, field := range []struct {
		to   *string
		from *string
	}{{&server.Name, c.Name}, {&server.URL, c.URL}, {&server.Type, c.Type}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if c.Active != nil {
		server.Active = *c.Active
	}
}

func (s *Store) allowRename(ctx context.Context, tx *sqldb.Tx, current, next Server) error {
	if current.Name == next.Name {
		return nil
	}
	if err := textrule.Name(next.Name); err != nil {
		return &NewNameError{Name: next.Name, Rule: err}
	}
	// Another codebase may have renamed a linked server: it may get the name of its agent back.
	if current.Agent != "" && !spelling.Same(current.Name, next.Name) && !spelling.Same(current.Agent, next.Name) {
		return &NameMismatchError{Agent: current.Agent, Server: next.Name}
	}
	others, err := s.serversByName(ctx, tx, next.Name)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.Key != current.Key {
			return &NameTakenError{Kind: "server", Name: other.Name}
		}
	}
	return nil
}

func checkEtag(given, current string) error {
	switch given {
	case "":
		return &EtagRequiredError{Current: current}
	case current:
		return nil
	}
	return &StaleEtagError{Current: current}
}
