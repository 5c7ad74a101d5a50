package sqlserver

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// grant is one line of the rights.
type grant struct{ rights, table, columns, role string }

var grantLine = regexp.MustCompile(`^GRANT ([A-Z, ]+) ON dbo\.(\w+)(?: \(([^)]*)\))? TO (\w+);$`)

func grants(t *testing.T) []grant {
	t.Helper()
	raw, err := os.ReadFile("rights.sql")
	if err != nil {
		t.Fatal(err)
	}
	var found []grant
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch match := grantLine.FindStringSubmatch(line); {
		case match != nil:
			found = append(found, grant{match[1], match[2], match[3], match[4]})
		case line != "" && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, "IF DATABASE_PRINCIPAL_ID("):
			t.Fatalf("%q is neither a grant nor the making of a role", line)
		}
	}
	return found
}

// legacy are the tables that other codebases own.
var legacy = []string{"TblServer", "TblServerOfflineLog"}

// TestI9_OnlyOneRoleMayWriteOnline reads every right on the legacy tables.
func TestI9_OnlyOneRoleMayWriteOnline(t *testing.T) {
	var found []string
	for _, one := range grants(t) {
		if slices.Contains(legacy, one.table) {
			found = append(found, fmt.Sprintf("%s: %s %s(%s)", one.role, one.rights, one.table, one.columns))
		}
	}
	slices.Sort(found)
	want := []string{
		"commandcenter_availability: SELECT TblServer()",
		"commandcenter_availability: SELECT TblServerOfflineLog()",
		"commandcenter_online: INSERT TblServerOfflineLog()",
		"commandcenter_online: UPDATE TblServer(Online)",
		"commandcenter_registry: SELECT, INSERT TblServer()",
		"commandcenter_registry: UPDATE TblServer(Name, Url, Type, Active)",
	}
	if !slices.Equal(found, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// TestRightsCoverTheSchemas compares the tables that a service's migrations make with those it may use. A right that is missing
// shows in production alone.
func TestRightsCoverTheSchemas(t *testing.T) {
	for _, service := range []string{"registry", "availability"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "services", service, "internal", "store", "migrations", "sqlserver", "*.sql"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no migrations: %v", service, err)
		}
		want := []string{service + "_schema_version: SELECT"}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range regexp.MustCompile(`CREATE TABLE dbo\.(\w+)`).FindAllSubmatch(raw, -1) {
				if !slices.Contains(legacy, string(table[1])) {
					want = append(want, string(table[1])+": SELECT, INSERT, UPDATE, DELETE")
				}
			}
		}
		var found []string
		for _, one := range grants(t) {
			if one.role == "commandcenter_"+service && !slices.Contains(legacy, one.table) {
				found = append(found, one.table+": "+one.rights)
			}
		}
		slices.Sort(want)
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Errorf("%s: its role has\n%s\nits schema needs\n%s", service, strings.Join(found, "\n"), strings.Join(want, "\n"))
		}
	}
}
