package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"testing"
	"testing/fstest"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// removeAgent rejects an agent and removes it.
func removeAgent(t *testing.T, s *store.Store, agent string) {
	t.Helper()
	rejected, err := s.Reject(t.Context(), name(t, agent), read(t, s, agent).Etag(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), name(t, agent), rejected.Etag()); err != nil {
		t.Fatal(err)
	}
}

// standing tells of each server in the fleet whose it is or was.
func standing(t *testing.T, s *store.Store) map[int64]string {
	t.Helper()
	found := map[int64]string{}
	for _, server := range fleetOf(t, s).Servers {
		if found[server.Key] != "" {
			t.Errorf("server %d is there twice", server.Key)
		}
		found[server.Key] = server.Agent + " " + server.State.String()
		if server.Removed {
			found[server.Key] = server.Agent + " removed"
		}
	}
	return found
}

func expect(t *testing.T, s *store.Store, what string, want map[int64]string) {
	t.Helper()
	if got := standing(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// notes counts the links that are noted as ended.
func notes(t *testing.T, raw *sqldbtest.Database) int {
	t.Helper()
	return raw.Number(t, `SELECT COUNT(*) FROM TblFormerLink`)
}

func TestAServerWhoseAgentIsRemovedStaysInTheFleet(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		key := accept(t, s, "BM-1", true).ServerKey
		for round := range int64(2) {
			expect(t, s, "linked", map[int64]string{key: "BM-1 Accepted"})
			removeAgent(t, s, "bm-1")
			expect(t, s, "removed", map[int64]string{key: "BM-1 removed"})
			record(t, s, beat(t, "BM-1", "a", round+2, at(int(round)+2)))
			expect(t, s, "heard again", map[int64]string{key: "BM-1 removed"})
			if again := accept(t, s, "BM-1", false).ServerKey; again != key {
				t.Fatalf("linked to %d, not %d", again, key)
			}
		}
		if _, err := s.Reject(t.Context(), name(t, "BM-1"), read(t, s, "BM-1").Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "rejected", map[int64]string{key: "BM-1 Rejected"})
		accept(t, s, "BM-1", false)
		expect(t, s, "accepted after all", map[int64]string{key: "BM-1 Accepted"})
		removeAgent(t, s, "BM-1")
		if _, _, err := s.Add(t.Context(), name(t, "BM-1"), "http://127.0.0.1:9", nil, "tester"); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "added by hand", map[int64]string{key: "BM-1 Accepted"})
	})
}

func TestAServerWhoseAgentMovedIsRemovedUntilAnotherIsLinked(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine))
		record(t, s, beat(t, "BM-1", "a", 1, at(1)), beat(t, "BM-2", "a", 1, at(1)))
		first := accept(t, s, "BM-1", true)
		if _, err := s.Reject(t.Context(), name(t, "BM-1"), first.Etag(), "tester"); err != nil {
			t.Fatal(err)
		}
		raw.Run(t, `UPDATE TblServer SET Name = 'BM-2' WHERE Name = 'BM-1'`) // as only another codebase would
		second := accept(t, s, "BM-1", true)
		expect(t, s, "moved", map[int64]string{first.ServerKey: "BM-1 removed", second.ServerKey: "BM-1 Accepted"})
		accept(t, s, "BM-2", false)
		expect(t, s, "linked to another", map[int64]string{first.ServerKey: "BM-2 Accepted", second.ServerKey: "BM-1 Accepted"})
		if count := notes(t, raw); count != 0 {
			t.Errorf("%d links are noted as ended", count)
		}
		removeAgent(t, s, "BM-2")
		raw.Run(t, `DELETE FROM TblServer WHERE Name = 'BM-2'`)
		expect(t, s, "its server vanished", map[int64]string{first.ServerKey: "BM-2 removed", second.ServerKey: "BM-1 Accepted"})
	})
}

// The release before knows no notes: it leaves one of a server that it links.
func TestALinkCountsMoreThanANote(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine))
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		key := accept(t, s, "BM-1", true).ServerKey
		raw.Run(t, fmt.Sprintf(`INSERT INTO TblFormerLink VALUES (%d, 'OLDER', '2026-01-02T03:04:05.000Z')`, key))
		expect(t, s, "linked", map[int64]string{key: "BM-1 Accepted"})
		removeAgent(t, s, "BM-1")
		expect(t, s, "removed", map[int64]string{key: "BM-1 removed"})
	})
}

func TestALinkAndItsNoteChangeTogether(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine))
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		key := accept(t, s, "BM-1", true).ServerKey
		rejected, err := s.Reject(t.Context(), name(t, "BM-1"), read(t, s, "BM-1").Etag(), "tester")
		if err != nil {
			t.Fatal(err)
		}
		var stale *store.StaleEtagError
		if err := s.Remove(t.Context(), name(t, "BM-1"), "1-1"); !errors.As(err, &stale) || notes(t, raw) != 0 {
			t.Fatal("a refused removal is noted", err)
		}
		raw.Refuse(t, "INSERT", "TblFormerLink")
		if err := s.Remove(t.Context(), name(t, "BM-1"), rejected.Etag()); err == nil {
			t.Fatal("removed without a note")
		}
		expect(t, s, "not removed", map[int64]string{key: "BM-1 Rejected"})
		raw.Allow(t)
		if err := s.Remove(t.Context(), name(t, "BM-1"), rejected.Etag()); err != nil {
			t.Fatal(err)
		}
		var missing *store.AgentNotFoundError
		if err := s.Remove(t.Context(), name(t, "BM-1"), rejected.Etag()); !errors.As(err, &missing) {
			t.Fatal("removed twice", err)
		}
		raw.Refuse(t, "DELETE", "TblFormerLink")
		record(t, s, beat(t, "BM-1", "a", 2, at(2)))
		if _, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "BM-1"), Etag: read(t, s, "BM-1").Etag(), Actor: "tester"}); err == nil {
			t.Fatal("linked beside the note that its link ended")
		}
		if agent := read(t, s, "BM-1"); agent.State != enrollment.Pending || agent.ServerKey != 0 {
			t.Fatalf("%+v", agent)
		}
		expect(t, s, "not linked", map[int64]string{key: "BM-1 removed"})
		raw.Allow(t)
		if _, _, err := s.Add(t.Context(), name(t, "BM-1"), "http://127.0.0.1:9", nil, "tester"); !errors.As(err, new(*store.NameTakenError)) || notes(t, raw) != 1 {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), name(t, "BM-1"), read(t, s, "BM-1").Etag()); err != nil || notes(t, raw) != 1 {
			t.Fatal("an agent that was never linked leaves notes as they are", err)
		}
		if _, _, err := s.Add(t.Context(), name(t, "BM-1"), "http://127.0.0.1:9", nil, "tester"); err != nil || notes(t, raw) != 0 {
			t.Fatal(notes(t, raw), err)
		}
		expect(t, s, "added by hand", map[int64]string{key: "BM-1 Accepted"})
	})
}

// Whatever two replicas do to one agent at once, its server is in every read, once.
func TestAServerThatHadAnAgentIsInEveryRead(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		one, raw := openBeside(t, engine, legacyServers(engine))
		two := replicaOf(t, raw)
		record(t, one, beat(t, "BM-1", "a", 1, at(1)))
		key := accept(t, one, "BM-1", true).ServerKey
		ended := make(chan error, 2)
		for replica, s := range map[string]*store.Store{"one": one, "two": two} {
			go func() { ended <- decideAtRandom(context.WithoutCancel(t.Context()), s, replica, name(t, "BM-1")) }()
		}
		for running := 2; running > 0; {
			select {
			case err := <-ended:
				if running--; err != nil {
					t.Error(err)
				}
			default:
				if servers := fleetOf(t, one).Servers; len(servers) != 1 || servers[0].Key != key || servers[0].Agent != "BM-1" {
					t.Fatalf("%+v", servers)
				}
			}
		}
		if both := raw.Number(t, `SELECT (SELECT COUNT(*) FROM TblFormerLink) + (SELECT COUNT(*) FROM TblAgent WHERE ServerKey IS NOT NULL)`); both != 1 {
			t.Fatalf("%d links and notes", both)
		}
	})
}

// decideAtRandom takes an agent through all states many times. What another replica decided first is no error.
func decideAtRandom(ctx context.Context, s *store.Store, replica string, agent enrollment.Name) error {
	for round := range int64(40) {
		beat := enrollment.Heartbeat{Name: agent, Path: enrollment.Bus, Order: enrollment.Order{BootID: replica, Sequence: round, ObservedAt: at(int(round))}}
		_, _, failed := s.RecordHeartbeats(ctx, []enrollment.Heartbeat{beat})
		for _, act := range []func(etag string) error{
			func(etag string) error {
				_, _, err := s.Accept(ctx, store.Acceptance{Name: agent, Etag: etag, Actor: replica})
				return err
			},
			func(etag string) error { _, err := s.Reject(ctx, agent, etag, replica); return err },
			func(etag string) error { return s.Remove(ctx, agent, etag) },
		} {
			current, _, err := s.Agent(ctx, agent, enrollment.Bus)
			if err == nil {
				err = act(current.Etag())
			}
			var stale *store.StaleEtagError
			var state *store.StateError
			var missing *store.AgentNotFoundError
			if err != nil && !errors.As(err, &stale) && !errors.As(err, &state) && !errors.As(err, &missing) {
				failed = errors.Join(failed, err)
			}
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

func TestMigrationFromVersion1KeepsWhatIsThere(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		database := engine.Empty(t)
		folder := string(engine.Dialect)
		first := fstest.MapFS{folder + "/00001_registry.sql": {}}
		var err error
		if first[folder+"/00001_registry.sql"].Data, err = fs.ReadFile(store.Migrations().Files, folder+"/00001_registry.sql"); err != nil {
			t.Fatal(err)
		}
		db, err := sqldb.Open(database.URL, store.Statements())
		if err != nil {
			t.Fatal(err)
		}
		migrations := store.Migrations()
		migrations.Files = first
		if _, after, err := db.Migrate(t.Context(), migrations); err != nil || after != 1 {
			t.Fatal(after, err)
		}
		insertServer(t, database, 7, "BM-1", true)
		database.Run(t, `INSERT INTO TblServerOfflineLog VALUES (7, '2026-01-02T03:04:05.000Z')`,
			`INSERT INTO TblAgent (Name, NameKey, ReportedName, ServerKey, RegistrationState, OnServiceBus, CreatedAt, LastBusHeartbeatAt)
			VALUES ('BM-1', 'bm-1', 'BM-1', 7, 2, 1, '2026-01-02T03:04:05.000Z', '2026-01-02T03:04:05.000Z'),
				('BM-2', 'bm-2', 'BM-2', NULL, 1, 1, '2026-01-02T03:04:05.000Z', NULL)`)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := replicaOf(t, database)
		if err := s.Check(t.Context()); err == nil {
			t.Fatal("a schema of version 1 is too old")
		}
		all, err := fs.Glob(store.Migrations().Files, folder+"/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		var latest int64
		if _, err := fmt.Sscanf(path.Base(all[len(all)-1]), "%d_", &latest); err != nil {
			t.Fatal(all, err)
		}
		if before, after, err := s.Migrate(t.Context()); err != nil || before != 1 || after != latest {
			t.Fatal(before, after, err)
		}
		expect(t, s, "migrated", map[int64]string{7: "BM-1 Accepted"})
		if agent := read(t, s, "BM-2"); agent.State != enrollment.Pending || !agent.LastBusAt.IsZero() {
			t.Fatalf("%+v", agent)
		}
		removeAgent(t, s, "BM-1")
		expect(t, s, "removed", map[int64]string{7: "BM-1 removed"})
		if server, err := s.Server(t.Context(), store.ServerRef{Name: "BM-1"}); err != nil || !server.Online {
			t.Fatal(server, err)
		}
	})
}

// insertServer inserts a row of TblServer under a key of one's own.
func insertServer(t *testing.T, db *sqldbtest.Database, key int64, name string, online bool) {
	t.Helper()
	insert := `INSERT INTO TblServer (ServerKey, Name, Url, Type, Active, Online) VALUES (@p1, @p2, 'https://x', 'BenefitManager', 1, @p3)`
	if db.Dialect == sqldb.SQLServer { // the switch is the connection's, so that all of it is one batch
		insert = "SET IDENTITY_INSERT dbo.TblServer ON; " + insert + "; SET IDENTITY_INSERT dbo.TblServer OFF"
	}
	db.Exec(t, insert, key, name, online)
}
