package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kinds of column types, by what their names begin with in either dialect.
var (
	WholeNumber = []string{"int", "bigint", "smallint", "integer"}
	AnyText     = []string{"nvarchar", "varchar", "nchar", "char", "text", "ntext"}
	Flag        = []string{"bit", "int", "integer", "boolean", "tinyint"}
	Instant     = []string{"datetime", "smalldatetime", "date", "text"}
)

// LegacyTable is what a service uses of a table that another codebase owns.
type LegacyTable struct {
	Name string
	// Uses are the columns that are used, with the kinds of types that are usable.
	Uses []LegacyColumn
	// Appends says that the service inserts rows: then each other column that requires a value must be in Given.
	Appends bool
	// Given are values for columns that are not used otherwise, by name.
	Given map[string]string
	// GivenKey is the setting that Given is; empty where values cannot be given.
	GivenKey string
}

// LegacyColumn is one column that is used.
type LegacyColumn struct {
	Name  string
	Types []string
}

// column is one that is there.
type column struct {
	name, kind string
	required   bool // not null, without a default
}

// CheckLegacy names all that the tables lack, as the login sees them. It reads the statement "columns" of the service's store.
func (db *DB) CheckLegacy(ctx context.Context, tables ...LegacyTable) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var problems []string
	err := db.View(ctx, func(tx *Tx) error {
		problems = nil
		for _, table := range tables {
			there, err := columns(ctx, tx, table.Name)
			if err != nil {
				return err
			}
			problems = append(problems, table.lacks(there)...)
		}
		return nil
	})
	if err == nil && len(problems) > 0 {
		return Unfit("the server tables cannot be used, as this login sees them: %s", strings.Join(problems, "; "))
	}
	return err
}

// columns are those of a table, by their names in lower case.
func columns(ctx context.Context, tx *Tx, table string) (map[string]column, error) {
	found := map[string]column{}
	err := tx.Rows(ctx, "columns", func(scan func(...any) error) error {
		var one column
		var required Int
		err := scan(&one.name, &one.kind, &required)
		one.required = required == 1
		found[strings.ToLower(one.name)] = one
		return err
	}, sql.Named("table", table))
	return found, err
}

func (t LegacyTable) lacks(there map[string]column) []string {
	var problems []string
	used, given := map[string]bool{}, map[string]bool{}
	for _, need := range t.Uses {
		found, ok := there[strings.ToLower(need.Name)]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s.%s is missing", t.Name, need.Name))
		case !slices.ContainsFunc(need.Types, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(found.kind), prefix) }):
			problems = append(problems, fmt.Sprintf("%s.%s is %s, expected one of %v", t.Name, need.Name, found.kind, need.Types))
		}
		used[strings.ToLower(need.Name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.Given)) {
		key := strings.ToLower(name)
		given[key] = true
		if _, ok := there[key]; !ok || used[key] {
			problems = append(problems, fmt.Sprintf("%s.%s is not a column of %s that needs a default", t.GivenKey, name, t.Name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if one := there[key]; t.Appends && one.required && !used[key] && !given[key] {
			problems = append(problems, t.missingValue(one.name))
		}
	}
	return problems
}

func (t LegacyTable) missingValue(column string) string {
	text := fmt.Sprintf("%s.%s requires a value and has no default, so that no row can be appended: ", t.Name, column)
	if t.GivenKey == "" {
		return text + "give it one"
	}
	return text + fmt.Sprintf("give one as %s.%s", t.GivenKey, column)
}
