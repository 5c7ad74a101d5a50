package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func TestI7_ABatchIsHalvedDownToTheItemAtFault(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		raw.Run(t, raw.Of(`CREATE TRIGGER TestRefuse BEFORE UPDATE ON TblAgent WHEN NEW.Hostname = 'poison' BEGIN SELECT RAISE(ABORT, 'no'); END`,
			`ALTER TABLE TblAgent ADD CONSTRAINT TestRefuse CHECK (Hostname <> N'poison')`))
		var batch []enrollment.Heartbeat
		for i := range 100 {
			b := beat(t, fmt.Sprintf("BM-%d", i), "a", 1, at(1))
			if i == 41 || i == 42 {
				b.Content.Hostname = "poison"
			}
			batch = append(batch, b)
		}
		recorded, rejected, err := s.RecordHeartbeats(t.Context(), batch)
		if err != nil || len(rejected) != 2 || rejected[41] == nil || rejected[42] == nil {
			t.Fatal(err, rejected)
		}
		agents, _, _, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name"}, 1000, nil)
		if err != nil || len(agents) != 98 {
			t.Fatalf("%d agents are stored, 98 were good: %v", len(agents), err)
		}
		for i, one := range recorded {
			if i != 41 && i != 42 && one.Result != enrollment.Created {
				t.Errorf("item %d: %v", i, one.Result)
			}
		}
	})
}

// A database that fails is nobody's poison: the whole batch is answered with an error, so that nothing of it is settled.
func TestI7_AFailingDatabaseRejectsNoItem(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for what, fail := range map[string]func(*testing.T, *store.Store, *sqldbtest.Database) context.Context{
			"gone": func(t *testing.T, s *store.Store, _ *sqldbtest.Database) context.Context {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return t.Context()
			},
			"a table is missing": func(t *testing.T, _ *store.Store, raw *sqldbtest.Database) context.Context {
				raw.Run(t, `DROP TABLE TblAgent`)
				return t.Context()
			},
			"held by another": func(t *testing.T, s *store.Store, raw *sqldbtest.Database) context.Context {
				record(t, s, beat(t, "BM-1", "z", 1, at(0)))
				hold(t, raw)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			},
		} {
			t.Run(what, func(t *testing.T) {
				s, raw := openBeside(t, engine)
				ctx := fail(t, s, raw)
				_, rejected, err := s.RecordHeartbeats(ctx, []enrollment.Heartbeat{beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1))})
				if err == nil || len(rejected) > 0 {
					t.Fatalf("err %v, rejected %v", err, rejected)
				}
			})
		}
	})
}

// hold locks the rows of TblAgent for writing until the test ends, or release is called.
func hold(t *testing.T, raw *sqldbtest.Database) (release func()) {
	t.Helper()
	held, err := raw.Conn(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	begin := raw.Of("BEGIN IMMEDIATE", "BEGIN TRANSACTION; UPDATE TblAgent SET Hostname = Hostname")
	if _, err := held.ExecContext(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if _, err := held.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		_ = held.Close()
	})
	t.Cleanup(release)
	return release
}

// serverKey is the column of TblServer that names a row.
func serverKey(engine sqldbtest.Engine) string {
	if engine.Dialect == sqldb.SQLite {
		return "ServerKey INTEGER PRIMARY KEY"
	}
	return "ServerKey int IDENTITY(1,1) NOT NULL PRIMARY KEY"
}

// legacy makes TblServer as another codebase has it: with these columns beside the key, as SQL Server has them.
func legacy(engine sqldbtest.Engine, columns string) string {
	if engine.Dialect == sqldb.SQLite {
		columns = strings.NewReplacer("nvarchar(128)", "TEXT", "nvarchar(2048)", "TEXT", "varbinary(8)", "BLOB", "bit", "INTEGER", "COLLATE Latin1_General_CI_AS", "COLLATE NOCASE", "COLLATE Latin1_General_BIN2", "COLLATE BINARY").Replace(columns)
	}
	return "CREATE TABLE TblServer (" + serverKey(engine) + ", " + columns + ")"
}

func legacyServers(engine sqldbtest.Engine) string {
	return legacy(engine, "Name nvarchar(128) COLLATE Latin1_General_CI_AS NOT NULL, Url nvarchar(2048) NULL, Type nvarchar(128) NULL, Active bit NULL, Online bit NULL, Region nvarchar(128) NOT NULL")
}

func TestLegacyTablesAreUsedAsTheyAre(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine), `CREATE TABLE TblTestSeen (Name nvarchar(128))`)
		raw.Run(t, raw.Of(`CREATE TRIGGER TestNoteServer AFTER INSERT ON TblServer BEGIN INSERT INTO TblTestSeen VALUES (NEW.Name); END`,
			`CREATE TRIGGER TestNoteServer ON TblServer AFTER INSERT AS INSERT INTO TblTestSeen SELECT Name FROM inserted`),
			`INSERT INTO TblServer (Name, Region) VALUES ('OLD-1', 'us')`)
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		old, err := s.Server(t.Context(), store.ServerRef{Name: "old-1"})
		if err != nil {
			t.Fatal(err)
		}
		active := true
		if old, err = s.UpdateServer(t.Context(), store.ServerRef{Name: "old-1"}, old.Etag(), store.ServerChange{Active: &active}); err != nil || !old.Active {
			t.Fatal("a row with NULLs must be editable", err)
		}
		if nulls := raw.Number(t, `SELECT COUNT(*) FROM TblServer WHERE Url IS NULL AND Type IS NULL AND Region = 'us'`); nulls != 1 {
			t.Fatal("what nobody edited must stay", nulls)
		}
		if _, err := s.CreateServer(t.Context(), store.Server{Name: "NEW-1", URL: "https://new", Type: store.ServerType}); err != nil {
			t.Fatal(err)
		}
		if found := raw.Text(t, `SELECT Region FROM TblServer WHERE Name = 'NEW-1'`) + raw.Text(t, `SELECT Name FROM TblTestSeen WHERE Name <> 'OLD-1'`); found != "eu\nNEW-1\n" {
			t.Fatal(found)
		}
	})
}

func TestLegacyTablesThatLackWhatIsUsedAreRefusedByName(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		const name, url, kind, active, online, region = "Name nvarchar(128) NULL", "Url nvarchar(2048) NULL", "Type nvarchar(128) NULL", "Active bit NULL", "Online bit NULL", "Region nvarchar(128) NULL"
		for _, row := range []struct {
			columns []string
			want    string
		}{
			{[]string{name, url, kind, online, region}, "TblServer.Active"},
			{[]string{name, "Url varbinary(8) NULL", kind, active, online, region}, "TblServer.Url"},
			{[]string{name, url, kind, active, online, region, "Owner nvarchar(128) NOT NULL"}, "serverDefaults.Owner"},
			{[]string{name, url, kind, active, online}, "serverDefaults.Region"},
		} {
			s, _ := openBeside(t, engine, legacy(engine, strings.Join(row.columns, ", ")))
			if err := s.Check(t.Context()); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(row.want)) {
				t.Errorf("%s\nrefused with %v, want %s named", row.columns, err, row.want)
			}
		}
	})
}

// The legacy import may create the same server at the same moment.
func TestADoubleOfAServerIsReportedAndNotLinked(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine))
		raw.Run(t, raw.Of(`CREATE TRIGGER TestImport AFTER INSERT ON TblServer WHEN NEW.Region = 'eu' BEGIN INSERT INTO TblServer (Name, Region) VALUES (upper(NEW.Name), 'import'); END`,
			`CREATE TRIGGER TestImport ON TblServer AFTER INSERT AS INSERT INTO TblServer (Name, Region) SELECT UPPER(Name), 'import' FROM inserted WHERE Region = 'eu'`))
		record(t, s, beat(t, "bm-1", "a", 1, at(1)))
		var double *store.ServerAmbiguousError
		_, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "bm-1"), Etag: read(t, s, "bm-1").Etag(), Create: &store.Server{URL: "https://x"}, Actor: "tester"})
		if !errors.As(err, &double) {
			t.Fatal(err)
		}
		if agent := read(t, s, "bm-1"); agent.State != enrollment.Pending || agent.ServerKey != 0 {
			t.Fatalf("%+v", agent)
		}
	})
}

func TestASchemaOfAnotherVersionIsRefused(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		raw := engine.Empty(t)
		s := replicaOf(t, raw)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "registry migrate") {
			t.Fatal("an empty database: ", err)
		}
		if _, _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		raw.Run(t, `INSERT INTO registry_schema_version (version_id, is_applied) VALUES (99999, 1)`)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "newer") {
			t.Fatal("a newer schema:", err)
		}
		if _, _, err := s.Migrate(t.Context()); err == nil {
			t.Fatal("a newer schema was migrated")
		}
	})
}

func TestAnIdentityConflictThatIsResolvedStaysResolved(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for what, resolve := range map[string]func(*store.Store, context.Context, enrollment.Name, string) (store.Agent, error){
			"resolved": (*store.Store).ResolveConflict, "token reset": (*store.Store).ResetToken,
		} {
			t.Run(what, func(t *testing.T) { staysResolved(t, engine, resolve) })
		}
	})
}

func staysResolved(t *testing.T, engine sqldbtest.Engine, resolve func(*store.Store, context.Context, enrollment.Name, string) (store.Agent, error)) {
	s := open(t, engine)
	for i := range 5 {
		record(t, s, beat(t, "BM-1", "a", int64(i)+1, at(i*30)), beat(t, "BM-1", "b", int64(i)+1, at(i*30+15)))
	}
	marked := read(t, s, "BM-1")
	if marked.ConflictAt.IsZero() {
		t.Fatal("no conflict")
	}
	if _, err := resolve(s, t.Context(), name(t, "BM-1"), marked.Etag()); err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // b was turned off; the machine that is left is the one superseded before
		record(t, s, beat(t, "BM-1", "a", int64(i)+10, at(200+i*30)))
	}
	if agent := read(t, s, "BM-1"); !agent.ConflictAt.IsZero() || agent.BootID != "a" || agent.Hostname != "host-a-14" {
		t.Fatalf("%+v", agent)
	}
}

func TestEachVerificationIsHandedToOneOfTwoCallers(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		db := engine.Empty(t)
		one, two := openAt(t, db), openAt(t, db)
		for i := range 40 {
			agent, base := fmt.Sprintf("QA-%d", i), fmt.Sprintf("http://127.0.0.1:%d", 9000+i)
			if _, _, err := one.Add(t.Context(), name(t, agent), base, &store.Server{URL: "https://x"}, "tester"); err != nil {
				t.Fatal(err)
			}
			if _, recorded, err := one.RecordVerification(t.Context(), name(t, agent), store.Verification{BaseURL: base, Outcome: 1, Detail: ""}); err != nil || !recorded {
				t.Fatal(recorded, err)
			}
		}
		type claim struct {
			agents []store.Agent
			err    error
		}
		claims := make(chan claim)
		for i := range 8 {
			s := []*store.Store{one, two}[i%2]
			go func() {
				agents, err := s.ClaimVerifications(context.WithoutCancel(t.Context()), 0, time.Minute, 5)
				claims <- claim{agents, err}
			}()
		}
		handed := map[string]int{}
		for range 8 {
			got := <-claims
			if got.err != nil {
				t.Error(got.err)
			}
			for _, agent := range got.agents {
				handed[agent.Name]++
			}
		}
		for agent, times := range handed {
			if times != 1 {
				t.Errorf("%s was handed out %d times", agent, times)
			}
		}
		if len(handed) != 40 {
			t.Errorf("%d of 40 were handed out", len(handed))
		}
	})
}
