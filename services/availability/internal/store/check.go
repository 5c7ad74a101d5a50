package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

const (
	servers    = "TblServer"
	offlineLog = "TblServerOfflineLog"
)

// legacy is what we use of the tables that another codebase owns. Rows are appended to the log only where the job owns Online.
func legacy(own bool) []sqldb.LegacyTable {
	return []sqldb.LegacyTable{
		{Name: servers, Uses: []sqldb.LegacyColumn{
			{Name: "ServerKey", Types: sqldb.WholeNumber},
			{Name: "Name", Types: sqldb.AnyText},
			{Name: "Type", Types: sqldb.AnyText},
			{Name: "Online", Types: sqldb.Flag},
		}},
		{Name: offlineLog, Appends: own, Uses: []sqldb.LegacyColumn{
			{Name: "ServerKey", Types: sqldb.WholeNumber}, {Name: "CreateDate", Types: sqldb.Instant},
		}},
	}
}

// ours are the tables that the migrations make, but for the version table.
var ours = []string{
	"TblJobLease", "TblAvailabilityStatus", "TblAvailabilityPath", "TblAvailabilityState", "TblMaintenanceSwitch", "TblMaintenanceWindow",
	"TblAvailabilityServerName",
	"TblAvailabilityProbe",
}

// Check refuses a schema of another version, legacy tables that lack what we use, and a login that may not do what the job does; with
// own, that is also to write Online and the offline log. A database that takes no writes is not refused: what is known can be shown.
func (s *Store) Check(ctx context.Context, own bool) error {
	if err := s.db.CheckSchema(ctx, Migrations()); err != nil {
		return err
	}
	// Both are told: a login without any right on a table does not see its columns either.
	return errors.Join(s.db.CheckLegacy(ctx, legacy(own)...), s.checkRights(ctx, own))
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
	for _, table := range legacy(own) {
		for _, column := range table.Uses {
			rights = append(rights, right{"SELECT", table.Name, column.Name})
		}
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

// checkTimeout bounds the question for rights.
const checkTimeout = 15 * time.Second

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
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		lacking, grants = nil, nil
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
	return sqldb.Unfit("the database login lacks rights; nothing was changed. Missing: %s. Run, for the login's user: %s",
		strings.Join(lacking, ", "), strings.Join(slices.Compact(grants), "; "))
}

// grant is the least that gives the right.
func (r right) grant() string {
	if r.column == "" {
		return fmt.Sprintf("GRANT %s ON dbo.%s TO [user]", r.verb, r.table)
	}
	return fmt.Sprintf("GRANT %s ON dbo.%s (%s) TO [user]", r.verb, r.table, r.column)
}
