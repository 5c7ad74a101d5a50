package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// kinds of column types, by what their names begin with in either dialect.
var (
	wholeNumber = []string{"int", "bigint", "smallint", "integer"}
	text        = []string{"nvarchar", "varchar", "nchar", "char", "text", "ntext"}
	flag        = []string{"bit", "int", "integer", "boolean", "tinyint"}
	instant     = []string{"datetime", "smalldatetime", "date", "text"}
)

const (
	servers    = "TblServer"
	offlineLog = "TblServerOfflineLog"
)

// legacy are the columns we use of tables that another codebase owns.
var legacy = []struct {
	table, column string
	types         []string
}{
	{servers, "ServerKey", wholeNumber},
	{servers, "Name", text},
	{servers, "Type", text},
	{servers, "Online", flag},
	{offlineLog, "ServerKey", wholeNumber},
	{offlineLog, "CreateDate", instant},
}

// ours are the tables that the migrations make, but for the version table.
var ours = []string{
	"TblJobLease", "TblAvailabilityStatus", "TblAvailabilityPath", "TblAvailabilityState", "TblMaintenanceSwitch", "TblMaintenanceWindow",
	"TblAvailabilityServerName",
}

// Check refuses a schema of another version, legacy tables that lack what we use, and a database or a login that may not do what
// the job does; with own, that is also to write Online and the offline log.
func (s *Store) Check(ctx context.Context, own bool) error {
	if err := s.db.CheckSchema(ctx, Migrations()); err != nil {
		return err
	}
	// Both are told: a login without any right on a table does not see its columns either.
	if err := errors.Join(s.checkLegacy(ctx, own), s.checkRights(ctx, own)); err != nil {
		return err
	}
	// A right says nothing about a file, a replica or a whole database that is read-only.
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error { _, err := tx.Exec(ctx, "try_write"); return err })
	if err != nil {
		return fmt.Errorf("the database cannot be written to; nothing was changed: name a primary, or a file that this user may write: %w", err)
	}
	return nil
}

type column struct {
	kind     string
	required bool // not null, without a default
}

// checkLegacy names everything that is missing.
func (s *Store) checkLegacy(ctx context.Context, own bool) error {
	tables := map[string]map[string]column{servers: {}, offlineLog: {}}
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		for table, columns := range tables {
			err := tx.Rows(ctx, "columns", func(scan func(...any) error) error {
				var name, kind string
				var required sqldb.Int
				err := scan(&name, &kind, &required)
				columns[strings.ToLower(name)] = column{kind, required == 1}
				return err
			}, named("table", table))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if problems := missing(tables, own); len(problems) > 0 {
		return fmt.Errorf("the server tables cannot be used, as this login sees them: %s", strings.Join(problems, "; "))
	}
	return nil
}

func missing(tables map[string]map[string]column, own bool) []string {
	var problems []string
	used := map[string]bool{}
	for _, need := range legacy {
		key := strings.ToLower(need.column)
		found, ok := tables[need.table][key]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s.%s is missing", need.table, need.column))
		case !slices.ContainsFunc(need.types, func(prefix string) bool { return strings.HasPrefix(found.kind, prefix) }):
			problems = append(problems, fmt.Sprintf("%s.%s is %s, expected one of %v", need.table, need.column, found.kind, need.types))
		}
		used[need.table+"."+key] = true
	}
	for _, name := range slices.Sorted(maps.Keys(tables[offlineLog])) {
		if own && tables[offlineLog][name].required && !used[offlineLog+"."+name] {
			problems = append(problems, fmt.Sprintf("%s.%s requires a value and has no default, so that no row can be appended: give it one", offlineLog, name))
		}
	}
	return problems
}

// right is what a login may do with a table, or with one of its columns.
type right struct{ verb, table, column string }

func (r right) String() string {
	if r.column == "" {
		return r.verb + " on " + r.table
	}
	return r.verb + " on " + r.table + "(" + r.column + ")"
}

func needed(own bool) []right {
	var rights []right
	for _, need := range legacy {
		rights = append(rights, right{"SELECT", need.table, need.column})
	}
	if own {
		rights = append(rights, right{"UPDATE", servers, "Online"}, right{"INSERT", offlineLog, ""})
	}
	for _, table := range ours {
		for _, verb := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			rights = append(rights, right{verb, table, ""})
		}
	}
	return rights
}

// checkRights names every right that is missing, and what to grant.
func (s *Store) checkRights(ctx context.Context, own bool) error {
	var asked [][3]string
	for _, r := range needed(own) {
		asked = append(asked, [3]string{r.verb, r.table, r.column})
	}
	question, err := batch("asked", asked)
	if err != nil {
		return err
	}
	var lacking, grants []string
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		return tx.Rows(ctx, "rights", func(scan func(...any) error) error {
			var r right
			err := scan(&r.verb, &r.table, &r.column)
			lacking = append(lacking, r.String())
			grants = append(grants, r.grant())
			return err
		}, question)
	})
	if err != nil || len(lacking) == 0 {
		return err
	}
	slices.Sort(grants)
	return fmt.Errorf("the database login lacks rights; nothing was changed. Missing: %s. Run, for the login's user: %s",
		strings.Join(lacking, ", "), strings.Join(slices.Compact(grants), "; "))
}

// grant is the least that gives the right.
func (r right) grant() string {
	if r.column == "" {
		return fmt.Sprintf("GRANT %s ON dbo.%s TO [user]", r.verb, r.table)
	}
	return fmt.Sprintf("GRANT %s ON dbo.%s (%s) TO [user]", r.verb, r.table, r.column)
}
