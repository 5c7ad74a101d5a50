package store_test

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// legacyColumns are the columns of the legacy tables, with all that the database tells of them.
func legacyColumns(t *testing.T, raw *sqldbtest.Database) string {
	t.Helper()
	return raw.Text(t, raw.Of(`SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || COALESCE(c.dflt_value, '')
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.name IN ('TblServer', 'TblServerOfflineLog') ORDER BY 1`,
		`SELECT t.name + '.' + c.name, c.system_type_id, c.max_length, c.is_nullable, c.default_object_id FROM sys.tables t JOIN sys.columns c ON c.object_id = t.object_id
		WHERE t.name IN ('TblServer', 'TblServerOfflineLog') ORDER BY 1`)) +
		raw.Text(t, raw.Of(`SELECT 1`, // an index by name is made there, where no other codebase is
			`SELECT t.name + '.' + i.name FROM sys.tables t JOIN sys.indexes i ON i.object_id = t.object_id WHERE t.name IN ('TblServer', 'TblServerOfflineLog') AND i.name IS NOT NULL ORDER BY 1`))
}

func TestI12_MigrationsLeaveTheLegacyTablesAsTheyAre(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		raw := engine.Empty(t, legacyServers(engine), `CREATE TABLE TblServerOfflineLog (ServerKey int, CreateDate datetime, Note nvarchar(64))`)
		before := legacyColumns(t, raw)
		s := replicaOf(t, raw)
		if _, _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := legacyColumns(t, raw); after != before || !strings.Contains(strings.ToLower(before), "tblserver.region") || !strings.Contains(strings.ToLower(before), "tblserverofflinelog.note") {
			t.Fatalf("the columns were\n%s\nand are\n%s", before, after)
		}
	})
}

var (
	legacyTable = regexp.MustCompile(`(?i)\bTblServer(OfflineLog)?\b`)
	// guarded makes a legacy table where there is none, which is all that is done to them.
	guarded = regexp.MustCompile(`(?is)^IF OBJECT_ID\(N'dbo\.(TblServer|TblServerOfflineLog)', N'U'\) IS NULL\s+CREATE TABLE dbo\.(TblServer|TblServerOfflineLog) \([^;]*\)$`)
)

// altersLegacy names the first statement that does more to a legacy table than to make a missing one.
func altersLegacy(script string) string {
	up, _, _ := strings.Cut(script, "-- +goose Down")
	for statement := range strings.SplitSeq(strings.ReplaceAll(up, "-- +goose Up", ""), ";") {
		statement = strings.TrimSpace(statement)
		if made := guarded.FindStringSubmatch(statement); legacyTable.MatchString(statement) && (made == nil || made[1] != made[2]) {
			return statement
		}
	}
	return ""
}

func TestI12_NoTSQLMigrationAltersALegacyTable(t *testing.T) {
	files := store.Migrations().Files
	names, err := fs.Glob(files, "sqlserver/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal("no migrations", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		if found := altersLegacy(string(text)); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
	for _, bad := range []string{
		"ALTER TABLE dbo.TblServer ADD X int NULL", "DROP TABLE dbo.TblServerOfflineLog", "CREATE INDEX I ON dbo.TblServer (Name)", "CREATE TABLE dbo.TblServer (X int)",
		"EXEC sp_rename N'dbo.TblServer.Name', N'Title'", "ALTER TABLE dbo.TblAgent ADD FOREIGN KEY (ServerKey) REFERENCES dbo.TblServer (ServerKey)", "DROP INDEX I ON [dbo].[TblServer]",
	} {
		if altersLegacy("CREATE TABLE dbo.TblX (Y int);\n"+bad+";") == "" {
			t.Errorf("the check takes %q", bad)
		}
	}
}

// What nobody edited is not written, so that it stays what it was, NULL or empty.
func TestUpdateServerWritesOnlyWhatWasGiven(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		active, url, renamed := true, "https://new", "old-1"
		for _, row := range []struct{ null, value, is string }{{"NULL", "''", "= ''"}, {"NOT NULL", "''", "= ''"}, {"NULL", "NULL", "IS NULL"}} {
			s, raw := openBeside(t, engine, legacy(engine, `Name nvarchar(128) COLLATE Latin1_General_CI_AS NOT NULL, Url nvarchar(2048) `+row.null+`, Type nvarchar(128) `+row.null+
				`, Active bit NULL, Online bit NULL, Region nvarchar(128) NULL`), `INSERT INTO TblServer (Name, Url, Type) VALUES ('OLD-1', `+row.value+`, `+row.value+`)`)
			server, err := s.Server(t.Context(), store.ServerRef{Name: "OLD-1"})
			if err != nil {
				t.Fatal(err)
			}
			kept := func(where string) {
				t.Helper()
				if n := raw.Number(t, `SELECT COUNT(*) FROM TblServer WHERE Name = 'OLD-1' AND `+where); n != 1 {
					t.Errorf("%+v: not %s", row, where)
				}
			}
			if server, err = s.UpdateServer(t.Context(), store.ServerRef{Name: "OLD-1"}, server.Etag(), store.ServerChange{Name: &renamed}); err != nil {
				t.Fatal(row, err)
			}
			kept(`Url ` + row.is + ` AND Type ` + row.is + ` AND Active IS NULL`)
			if server, err = s.UpdateServer(t.Context(), store.ServerRef{Name: "OLD-1"}, server.Etag(), store.ServerChange{URL: &url}); err != nil {
				t.Fatal(row, err)
			}
			kept(`Url = 'https://new' AND Type ` + row.is + ` AND Active IS NULL`)
			if _, err = s.UpdateServer(t.Context(), store.ServerRef{Name: "OLD-1"}, server.Etag(), store.ServerChange{Active: &active}); err != nil {
				t.Fatal(row, err)
			}
			kept(`Url = 'https://new' AND Type ` + row.is + ` AND Active = 1`)
		}
	})
}

// The lock is tried as one that cannot be had.
func TestWhoeverDecidesAServersNameTakesItsLockFirst(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		held := fstest.MapFS{}
		err := fs.WalkDir(store.Statements(), ".", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				held[path] = &fstest.MapFile{}
				held[path].Data, err = fs.ReadFile(store.Statements(), path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		held[string(engine.Dialect)+"/lock_server_name.sql"].Data = []byte("SELECT 'held by another' WHERE @resource IS NOT NULL")
		db := engine.Empty(t)
		free := openAt(t, db)
		s, err := store.OpenWith(db.URL, held)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		record(t, free, beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1)))
		server, err := free.CreateServer(t.Context(), store.Server{Name: "BM-1", URL: "https://x", Type: store.ServerType})
		if err != nil {
			t.Fatal(err)
		}
		other, active := "BM-3", false
		for what, act := range map[string]func() error{
			"create": func() error { _, err := s.CreateServer(t.Context(), store.Server{Name: "BM-1"}); return err },
			"rename": func() error {
				_, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "nobody"}, server.Etag(), store.ServerChange{Name: &other})
				return err
			},
			"accept": func() error {
				_, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "BM-1"), Etag: read(t, s, "BM-1").Etag(), Actor: "x"})
				return err
			},
			"accept with a new server": func() error {
				_, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "BM-2"), Etag: read(t, s, "BM-2").Etag(), Create: &store.Server{URL: "https://x"}, Actor: "x"})
				return err
			},
			"add by hand": func() error {
				_, _, err := s.Add(t.Context(), name(t, "QA-1"), "http://127.0.0.1:9", &store.Server{URL: "https://x"}, "x")
				return err
			},
		} {
			if err := act(); err == nil || !strings.Contains(err.Error(), "lock_server_name") {
				t.Errorf("%s without the lock: %v", what, err)
			}
		}
		if _, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "BM-1"}, server.Etag(), store.ServerChange{Active: &active}); err != nil {
			t.Error("a change that leaves the name alone needs no lock:", err)
		}
		held[string(engine.Dialect)+"/lock_server_name.sql"].Data = []byte("SELECT -1 WHERE @resource IS NOT NULL") // as a lock that timed out
		late, err := store.OpenWith(db.URL, held)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		if _, err := late.CreateServer(t.Context(), store.Server{Name: "BM-9", URL: "https://x"}); !errors.Is(err, sqldb.ErrConflict) {
			t.Errorf("a lock that was not granted: %v", err)
		}
		text, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
		if err != nil || !strings.Contains(text["lock_server_name"], "sp_getapplock @resource, N'Exclusive', N'Transaction'") {
			t.Error(text["lock_server_name"], err)
		}
	})
}
