package store_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
)

// withStatement opens the database once more, with one statement replaced.
func withStatement(t *testing.T, d *database, name, text string) *store.Store {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(store.Statements(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path] = &fstest.MapFile{}
			files[path].Data, err = fs.ReadFile(store.Statements(), path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files["sqlite/"+name+".sql"].Data = []byte(text)
	opened, err := store.OpenWith(d.url, files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// later waits until the database's clock shows another millisecond.
func later(t *testing.T, d *database) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for first := fleet(t, d.Store).ReadAt; !fleet(t, d.Store).ReadAt.After(first); {
		if time.Now().After(deadline) {
			t.Fatal("the database's clock stands still")
		}
	}
}

func TestRightsThatAreMissingAreNamed(t *testing.T) {
	d := onSQLite(t)
	const asked = " FROM json_each(@asked) v WHERE "
	const columns = "SELECT json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), json_extract(v.value, '$[2]')"
	for where, row := range map[string]struct {
		own          bool
		want, absent []string
	}{
		"true": {true, []string{
			"SELECT on TblServer(Type)", "SELECT on TblServerOfflineLog(CreateDate)", "UPDATE on TblServer(Online)", "INSERT on TblServerOfflineLog", "DELETE on TblJobLease",
			"GRANT UPDATE ON dbo.TblServer (Online) TO [user]", "GRANT INSERT ON dbo.TblServerOfflineLog TO [user]", "nothing was changed",
		}, nil},
		"true ": {false, []string{"SELECT on TblServer(Online)", "INSERT on TblMaintenanceWindow"}, []string{"UPDATE on TblServer", "INSERT on TblServerOfflineLog"}},
		"json_extract(v.value, '$[0]') = 'UPDATE' AND json_extract(v.value, '$[1]') = 'TblServer'": {true, []string{"UPDATE on TblServer(Online)"}, []string{"SELECT", "INSERT"}},
	} {
		err := withStatement(t, d, "rights", columns+asked+where).Check(t.Context(), row.own)
		if err == nil {
			t.Fatal(where, "was taken")
		}
		for _, want := range row.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\ndoes not name %q", where, err, want)
			}
		}
		for _, absent := range row.absent {
			if strings.Contains(err.Error(), absent) {
				t.Errorf("%s: %v\nnames %q", where, err, absent)
			}
		}
	}
	if err := d.Check(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

// A login without any right on a table does not see its columns: what it lacks is told all the same.
func TestRightsThatAreMissingAreNamedWhereNothingIsSeen(t *testing.T) {
	d := onSQLite(t)
	d.run(t, "DROP TABLE TblServer")
	blind := withStatement(t, d, "rights", "SELECT json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), json_extract(v.value, '$[2]') FROM json_each(@asked) v")
	if err := blind.Check(t.Context(), true); err == nil || !strings.Contains(err.Error(), "TblServer.Online is missing") || !strings.Contains(err.Error(), "UPDATE on TblServer(Online)") {
		t.Fatal(err)
	}
}

// What is known can be shown without writes: the service starts, and says that nothing can be written.
func TestADatabaseThatCannotBeWrittenIsTaken(t *testing.T) {
	d := onSQLite(t)
	before := d.dump(t)
	refusing := withStatement(t, d, "probe_write", "UPDATE Nowhere SET x = 1")
	if err := refusing.Check(t.Context(), true); err != nil || d.dump(t) != before {
		t.Fatal("the check wrote something", err)
	}
}

func TestASchemaOfAnotherVersionIsRefused(t *testing.T) {
	s, err := store.Open("sqlite:" + filepath.Join(t.TempDir(), "fleet.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context(), false); err == nil || !strings.Contains(err.Error(), "availability migrate") {
		t.Fatal("an empty database: ", err)
	}
	d := onSQLite(t)
	d.run(t, `INSERT INTO availability_schema_version (version_id, is_applied) VALUES (99999, 1)`)
	if err := d.Check(t.Context(), false); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatal("a newer schema:", err)
	}
}
