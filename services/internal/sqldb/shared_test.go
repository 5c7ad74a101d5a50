package sqldb_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
)

// Whichever service migrates first, what both share is the same; what another codebase made is left as it is.
func TestI12_TheSharedTablesAreMadeInOnePlace(t *testing.T) {
	statements := fstest.MapFS{"sqlite/one.sql": {Data: []byte("SELECT 1")}, "sqlserver/one.sql": {Data: []byte("SELECT 1")}}
	migration := &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE TblTestOwn (A int);")}
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for _, legacy := range []bool{false, true} {
			raw := engine.Empty(t)
			if legacy {
				raw.Run(t, `CREATE TABLE TblServerOfflineLog (ServerKey int NOT NULL, CreateDate datetime NOT NULL, Note nvarchar(64) NULL)`)
			}
			db, err := sqldb.Open(raw.URL, statements)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, table := range []string{"registry_schema_version", "availability_schema_version"} {
				files := fstest.MapFS{"sqlite/00001_own.sql": migration, "sqlserver/00001_own.sql": migration}
				if _, after, err := db.Migrate(t.Context(), sqldb.Migrations{Files: files, Table: table, Command: "x migrate"}); err != nil || after != 1 {
					t.Fatal(after, err)
				}
				raw.Run(t, `DROP TABLE TblTestOwn`)
			}
			if n := raw.Number(t, `SELECT COUNT(*) FROM TblServer`) + raw.Number(t, `SELECT COUNT(*) FROM TblServerOfflineLog`); n != 0 {
				t.Error(n)
			}
			if engine.Dialect == sqldb.SQLServer {
				indexes := raw.Text(t, `SELECT i.name FROM sys.indexes i JOIN sys.tables t ON t.object_id = i.object_id WHERE t.name = 'TblServerOfflineLog' AND i.name IS NOT NULL`)
				if made := strings.Contains(strings.ToLower(indexes), "ix_tblserverofflinelog_server"); made == legacy { // a long name may be cut
					t.Errorf("a table of others: %t; its indexes are %s", legacy, indexes)
				}
			}
		}
	})
}
