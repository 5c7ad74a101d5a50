package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/commandcenter/fleet/services/availability/internal/store"
)

// Servers are found by name as agents are, whatever the table's collation, and also of rows that another codebase wrote.
func TestI13_ServersAreFoundByNamesAsAgentsAre(t *testing.T) {
	for _, collation := range []string{"COLLATE NOCASE", ""} {
		d := onSQLite(t, `CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY AUTOINCREMENT, Name TEXT NOT NULL `+collation+`, Url TEXT, Type TEXT, Active INTEGER NOT NULL DEFAULT 1, Online INTEGER NOT NULL DEFAULT 0)`)
		for _, pair := range [][2]string{{"ÄRGER", "ärger"}, {"Straße-4", "STRASSE-4"}, {"A\u030a-5", "Å-5"}, {"SP-1", "sp-1"}} {
			key := d.server(t, pair[0], store.ServerType, 1)
			if found, err := d.StatusOf(t.Context(), pair[1]); err != nil || found.Key != key {
				t.Errorf("%q asked for as %q: %+v %v", pair[0], pair[1], found, err)
			}
			if found, _, _, err := d.Maintenance(t.Context(), pair[1]); err != nil || found.Key != key {
				t.Errorf("the maintenance of %q: %+v %v", pair[1], found, err)
			}
			if _, _, err := d.OfflineLog(t.Context(), pair[1], store.LogSpan{}, 10, nil); err != nil {
				t.Errorf("the offline log of %q: %v", pair[1], err)
			}
			if found, _, err := d.Statuses(t.Context(), store.Filter{Held: -1, Maintenance: -1, Disagrees: -1, Query: pair[1]}, 10, 0); err != nil || len(found) != 1 {
				t.Errorf("searched for %q: %v %v", pair[1], found, err)
			}
		}
		double := d.server(t, "straße-4", store.ServerType, 1)
		var several *store.ServerAmbiguousError
		if _, err := d.StatusOf(t.Context(), "STRASSE-4"); !errors.As(err, &several) || len(several.Keys) != 2 || several.Keys[1] != double {
			t.Errorf("a double that another codebase made: %v", err)
		}
		d.run(t, fmt.Sprintf(`UPDATE TblServer SET Name = 'Straße-5' WHERE ServerKey = %d`, double))
		if found, err := d.StatusOf(t.Context(), "STRASSE-5"); err != nil || found.Key != double {
			t.Errorf("a row that was renamed: %+v %v", found, err)
		}
		if _, err := d.StatusOf(t.Context(), "straße-4"); err != nil {
			t.Errorf("its old name: %v", err)
		}
	}
}
