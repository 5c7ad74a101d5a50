package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// onSQLite opens a SQLite store and the same file by hand, for what only another program would do to it.
func onSQLite(t testing.TB, before ...string) (*store.Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	run(t, raw, before...)
	opened, err := store.Open("sqlite:"+path, map[string]string{"Region": "eu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return opened, raw
}

func run(t testing.TB, raw *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := raw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(statement, err)
		}
	}
}

func TestI7_ABatchIsHalvedDownToTheItemAtFault(t *testing.T) {
	s, raw := onSQLite(t)
	run(t, raw, `CREATE TRIGGER Refuse BEFORE UPDATE ON TblAgent WHEN NEW.Hostname = 'poison' BEGIN SELECT RAISE(ABORT, 'no'); END`)
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
}

// A database that fails is nobody's poison: the whole batch is answered with an error, so that nothing of it is settled.
func TestI7_AFailingDatabaseRejectsNoItem(t *testing.T) {
	for what, failing := range map[string]func(*testing.T) (*store.Store, context.Context){
		"gone": func(t *testing.T) (*store.Store, context.Context) {
			s, _ := onSQLite(t)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return s, t.Context()
		},
		"a table is missing": func(t *testing.T) (*store.Store, context.Context) {
			s, raw := onSQLite(t)
			run(t, raw, `DROP TABLE TblAgent`)
			return s, t.Context()
		},
		"held by another": func(t *testing.T) (*store.Store, context.Context) {
			s, raw := onSQLite(t)
			held, err := raw.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := held.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = held.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			t.Cleanup(cancel)
			return s, ctx
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, ctx := failing(t)
			_, rejected, err := s.RecordHeartbeats(ctx, []enrollment.Heartbeat{beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1))})
			if err == nil || len(rejected) > 0 {
				t.Fatalf("err %v, rejected %v", err, rejected)
			}
		})
	}
}

const legacyServers = `CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT NOT NULL COLLATE NOCASE, Url TEXT, Type TEXT, Active INTEGER, Online INTEGER, Region TEXT NOT NULL)`

func TestLegacyTablesAreUsedAsTheyAre(t *testing.T) {
	s, raw := onSQLite(t, legacyServers,
		`CREATE TABLE Seen (Name TEXT)`,
		`CREATE TRIGGER Note AFTER INSERT ON TblServer BEGIN INSERT INTO Seen VALUES (NEW.Name); END`,
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
	var nulls int
	if err := raw.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM TblServer WHERE Url IS NULL AND Type IS NULL AND Region = 'us'`).Scan(&nulls); err != nil || nulls != 1 {
		t.Fatal("what nobody edited must stay", nulls, err)
	}
	if _, err := s.CreateServer(t.Context(), store.Server{Name: "NEW-1", URL: "https://new", Type: store.ServerType}); err != nil {
		t.Fatal(err)
	}
	var region, seen string
	if err := raw.QueryRowContext(t.Context(), `SELECT Region, (SELECT Name FROM Seen ORDER BY rowid DESC) FROM TblServer WHERE Name = 'NEW-1'`).Scan(&region, &seen); err != nil || region != "eu" || seen != "NEW-1" {
		t.Fatal(region, seen, err)
	}
}

func TestLegacyTablesThatLackWhatIsUsedAreRefusedByName(t *testing.T) {
	for table, want := range map[string]string{
		`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT, Url TEXT, Type TEXT, Online INTEGER, Region TEXT)`:                                      "TblServer.Active",
		`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT, Url BLOB, Type TEXT, Active INTEGER, Online INTEGER, Region TEXT)`:                      "TblServer.Url",
		`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT, Url TEXT, Type TEXT, Active INTEGER, Online INTEGER, Region TEXT, Owner TEXT NOT NULL)`: "serverDefaults.Owner",
		`CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT, Url TEXT, Type TEXT, Active INTEGER, Online INTEGER)`:                                   "serverDefaults.Region",
	} {
		s, _ := onSQLite(t, table)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nrefused with %v, want %s named", table, err, want)
		}
	}
}

// The legacy import may create the same server at the same moment.
func TestADoubleOfAServerIsReportedAndNotLinked(t *testing.T) {
	s, raw := onSQLite(t, legacyServers)
	run(t, raw, `CREATE TRIGGER Import AFTER INSERT ON TblServer WHEN NEW.Region = 'eu' BEGIN INSERT INTO TblServer (Name, Region) VALUES (upper(NEW.Name), 'import'); END`)
	record(t, s, beat(t, "bm-1", "a", 1, at(1)))
	var double *store.ServerAmbiguousError
	_, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "bm-1"), Etag: read(t, s, "bm-1").Etag(), Create: &store.Server{URL: "https://x"}, Actor: "tester"})
	if !errors.As(err, &double) {
		t.Fatal(err)
	}
	if agent := read(t, s, "bm-1"); agent.State != enrollment.Pending || agent.ServerKey != 0 {
		t.Fatalf("%+v", agent)
	}
}

func TestASchemaOfAnotherVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := store.Open("sqlite:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "registry migrate") {
		t.Fatal("an empty database: ", err)
	}
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	run(t, raw, `INSERT INTO registry_schema_version (version_id, is_applied) VALUES (99999, 1)`)
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatal("a newer schema:", err)
	}
	if _, _, err := s.Migrate(t.Context()); err == nil {
		t.Fatal("a newer schema was migrated")
	}
}

func TestAnIdentityConflictThatIsResolvedStaysResolved(t *testing.T) {
	for what, resolve := range map[string]func(*store.Store, context.Context, enrollment.Name, string) (store.Agent, error){
		"resolved": (*store.Store).ResolveConflict, "token reset": (*store.Store).ResetToken,
	} {
		t.Run(what, func(t *testing.T) { staysResolved(t, resolve) })
	}
}

func staysResolved(t *testing.T, resolve func(*store.Store, context.Context, enrollment.Name, string) (store.Agent, error)) {
	s := open(t)
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
	url := "sqlite:" + filepath.Join(t.TempDir(), "fleet.db")
	one, two := openAt(t, url), openAt(t, url)
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
}
