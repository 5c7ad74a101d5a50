package store_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

const (
	legacyServers = `CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT NOT NULL COLLATE NOCASE, Type TEXT, Active INTEGER, Online INTEGER, Region TEXT NOT NULL DEFAULT 'eu')`
	legacyLog     = `CREATE TABLE TblServerOfflineLog (LogKey INTEGER PRIMARY KEY, ServerKey INTEGER, CreateDate TEXT, Note TEXT NOT NULL DEFAULT '')`
)

// schemaOf is how the legacy tables are made, with all that belongs to them.
func schemaOf(t *testing.T, d *database) string {
	t.Helper()
	var all string
	query := `SELECT group_concat(COALESCE(sql, name), x'0a' ORDER BY name) FROM sqlite_master WHERE tbl_name IN ('TblServer', 'TblServerOfflineLog')`
	if err := d.raw.QueryRowContext(t.Context(), query).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestI12_LegacyTablesStayAsTheyAre(t *testing.T) {
	before := []string{
		legacyServers, legacyLog, `CREATE TABLE Seen (ServerKey INTEGER, Online INTEGER)`,
		`CREATE TRIGGER Note AFTER UPDATE ON TblServer BEGIN INSERT INTO Seen VALUES (NEW.ServerKey, NEW.Online); END`,
	}
	d := onSQLite(t, before...)
	d.run(t, `INSERT INTO TblServer (Name, Type, Online) VALUES ('BM-1', 'BenefitManager', NULL), ('BM-2', 'benefitmanager', 1)`)
	token := take(t, d.Store, "a").Token
	done := record(t, d.Store, store.Sweep{Token: token, Own: true, Changes: []verdict.Change{{Key: 1, Online: true}, {Key: 2}}, Statuses: []store.Status{fresh(1), silent(2)}})
	if !slices.Equal(done.Online, []int64{1}) || !slices.Equal(done.Offline, []int64{2}) || d.logged(t) != 1 || d.number(t, "SELECT COUNT(*) FROM Seen") != 2 {
		t.Fatalf("%+v\n%s", done, d.dump(t))
	}
	if got, want := schemaOf(t, d), strings.Join([]string{before[3], before[0], before[1]}, "\n"); got != want {
		t.Fatalf("the legacy tables were\n%s\nand are\n%s", want, got)
	}
	if rows := d.number(t, "SELECT COUNT(*) FROM TblServer"); rows != 2 {
		t.Fatal("rows of TblServer:", rows)
	}
}

// An Online that was never given counts as offline: it becomes online with a heartbeat, and offline without a row.
func TestI9_AnOnlineThatWasNeverGivenIsNoTransition(t *testing.T) {
	d := onSQLite(t, legacyServers)
	d.run(t, `INSERT INTO TblServer (Name, Type, Online) VALUES ('BM-1', 'BenefitManager', NULL)`)
	done := record(t, d.Store, store.Sweep{Token: take(t, d.Store, "a").Token, Own: true, Changes: []verdict.Change{{Key: 1}}})
	if done.Offline != nil || d.logged(t) != 0 || fleet(t, d.Store).Servers[0].Online {
		t.Fatalf("%+v", done)
	}
}

// beside reads a file of the registry or of the plumbing.
func beside(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"../../.."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Either service may come first, so that the tables both have are made in one place, and by neither's own migrations.
func TestTheLegacyTablesAreMadeInOnePlace(t *testing.T) {
	made := regexp.MustCompile(`CREATE TABLE (?:IF NOT EXISTS )?(?:dbo\.)?TblServer(?:OfflineLog)? \([^;]*\)`)
	for _, dialect := range []string{"sqlite", "sqlserver"} {
		text, err := fs.ReadFile(store.Migrations().Files, dialect+"/00001_availability.sql")
		if err != nil {
			t.Fatal(err)
		}
		for where, script := range map[string]string{"availability": string(text), "registry": beside(t, "registry/internal/store/migrations", dialect, "00001_registry.sql")} {
			if found := made.FindString(script); found != "" {
				t.Errorf("%s: %s makes %s", dialect, where, found)
			}
		}
		if found := made.FindAllString(beside(t, "internal/sqldb/shared", dialect+".sql"), -1); len(found) != 2 {
			t.Errorf("%s: made are %q", dialect, found)
		}
	}
	if found := altersLegacy(beside(t, "internal/sqldb/shared/sqlserver.sql")); found != "" {
		t.Error(found)
	}
	shared, registry := beside(t, "internal/sqldb/shared/sqlite.sql"), beside(t, "registry/internal/store/migrations/sqlite/00001_registry.sql")
	first := onSQLite(t)
	first.run(t, registry)
	for _, d := range []*database{first, onSQLite(t, shared, registry)} {
		d.server(t, "BM-1", store.ServerType, 1)
		if err := d.Check(t.Context(), true); err != nil || len(fleet(t, d.Store).Servers) != 1 {
			t.Fatal(err)
		}
	}
}

func TestLegacyTablesThatLackWhatIsUsedAreRefusedByName(t *testing.T) {
	const log = `CREATE TABLE TblServerOfflineLog (ServerKey INTEGER, CreateDate TEXT)`
	for what, row := range map[string]struct {
		tables  []string
		observe bool // refused also where the job does not own Online
		want    []string
	}{
		"no Type, no Online":   {[]string{`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT)`, log}, true, []string{"TblServer.Type is missing", "TblServer.Online is missing"}},
		"a name that is none":  {[]string{`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name BLOB, Type TEXT, Online INTEGER)`, log}, true, []string{"TblServer.Name is blob"}},
		"an odd Online":        {[]string{`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT, Type TEXT, Online TEXT)`, log}, true, []string{"TblServer.Online is text"}},
		"a log without a date": {[]string{legacyServers, `CREATE TABLE TblServerOfflineLog (ServerKey TEXT)`}, true, []string{"TblServerOfflineLog.ServerKey is text", "TblServerOfflineLog.CreateDate is missing"}},
		"a log that wants more": {
			[]string{legacyServers, `CREATE TABLE TblServerOfflineLog (ServerKey INTEGER, CreateDate TEXT, Cause TEXT NOT NULL)`},
			false,
			[]string{"TblServerOfflineLog.Cause requires a value"},
		},
	} {
		s, err := store.Open("sqlite:" + filepath.Join(t.TempDir(), "fleet.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, statement := range row.tables {
			if _, err := s.Writer().ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, want := range row.want {
			if err := s.Check(t.Context(), true); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		if err := s.Check(t.Context(), false); (err != nil) != row.observe {
			t.Errorf("%s, where Online is not owned: %v", what, err)
		}
	}
}

var (
	legacyTable = regexp.MustCompile(`(?i)\bTblServer(OfflineLog)?\b`)
	// guarded makes a legacy table where there is none, with an index of ours only then; that is all that is done to them.
	guarded = regexp.MustCompile(`(?is)^IF OBJECT_ID\(N'dbo\.(TblServer|TblServerOfflineLog)', N'U'\) IS NULL\s+(BEGIN\s+)?CREATE TABLE dbo\.(TblServer|TblServerOfflineLog) \([^;]*\)(;\s+CREATE INDEX \w+ ON dbo\.(TblServerOfflineLog) \([^;]*\);\s+END)?$`)
)

// altersLegacy names the first statement that does more to a legacy table than to make a missing one.
func altersLegacy(script string) string {
	script, _, _ = strings.Cut(script, "-- +goose Down")
	script = regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(script, "")
	block := regexp.MustCompile(`(?s)IF [^;]*\sBEGIN\s.*?END;`)
	statements := append(block.FindAllString(script, -1), strings.Split(block.ReplaceAllString(script, ""), ";")...)
	for _, statement := range statements {
		statement = strings.TrimSuffix(strings.TrimSpace(statement), ";")
		made := guarded.FindStringSubmatch(statement)
		if legacyTable.MatchString(statement) && (made == nil || made[1] != made[3] || made[5] != "" && made[5] != made[1] || (made[2] == "") != (made[4] == "")) {
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
		"EXEC sp_rename N'dbo.TblServer.Name', N'Title'", "ALTER TABLE dbo.TblJobLease ADD FOREIGN KEY (ServerKey) REFERENCES dbo.TblServer (ServerKey)",
		"CREATE INDEX I ON dbo.TblServerOfflineLog (ServerKey)",
		"IF OBJECT_ID(N'dbo.TblServerOfflineLog', N'U') IS NULL\nBEGIN CREATE TABLE dbo.TblServerOfflineLog (X int); ALTER TABLE dbo.TblServer ADD X int; END",
		"IF OBJECT_ID(N'dbo.TblServerOfflineLog', N'U') IS NULL\n CREATE TABLE dbo.TblServerOfflineLog (X int);\n CREATE INDEX I ON dbo.TblServerOfflineLog (X)",
	} {
		if altersLegacy("CREATE TABLE dbo.TblX (Y int);\n"+bad+";") == "" {
			t.Errorf("the check takes %q", bad)
		}
	}
}

func TestOnlyOnlineAndTheLogAreWrittenOfTheLegacyTables(t *testing.T) {
	for dialect, prefix := range map[string]string{"sqlite": "", "sqlserver": "dbo."} {
		written := regexp.MustCompile(fmt.Sprintf(`(?i)\b(UPDATE|INSERT INTO|DELETE FROM|DELETE|ALTER TABLE|DROP TABLE|TRUNCATE TABLE)\s+%s(TblServer|TblServerOfflineLog)\b`, regexp.QuoteMeta(prefix)))
		names, err := fs.Glob(store.Statements(), dialect+"/*.sql")
		if err != nil || len(names) == 0 {
			t.Fatal(err)
		}
		found := map[string][]string{}
		for _, name := range names {
			text, err := fs.ReadFile(store.Statements(), name)
			if err != nil {
				t.Fatal(err)
			}
			if hits := written.FindAllString(string(text), -1); hits != nil {
				found[name] = hits
			}
			if strings.HasSuffix(name, "set_online.sql") && (!strings.Contains(string(text), "SET Online = ") || strings.Contains(string(text), "Active")) {
				t.Errorf("%s writes more than Online:\n%s", name, text)
			}
		}
		want := fmt.Sprint(map[string][]string{
			dialect + "/set_online.sql":  {"UPDATE " + prefix + "TblServer"},
			dialect + "/log_offline.sql": {"INSERT INTO " + prefix + "TblServerOfflineLog"},
		})
		if fmt.Sprint(found) != want {
			t.Errorf("%s writes %v, want %v", dialect, found, want)
		}
	}
}
