package sqldb

import (
	"database/sql"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

// A clock that is stepped is stepped in transactions, in statements of their own that are prepared, and back again.
func TestTheDatabasesClockIsStepped(t *testing.T) {
	db, err := Open("sqlite:"+filepath.Join(t.TempDir(), "clock.db"), fstest.MapFS{
		"sqlite/now.sql":   {Data: []byte("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now');")},
		"sqlite/later.sql": {Data: []byte("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('%+.3f seconds', @milliseconds / 1000.0));")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	readings := func() (alone, within time.Time) {
		t.Helper()
		var at, later Time
		if err := db.Rows(t.Context(), "now", func(scan func(...any) error) error { return scan(&at) }); err != nil {
			t.Fatal(err)
		}
		err := db.View(t.Context(), func(tx *Tx) error {
			_, err := tx.Row(t.Context(), "later", []any{&later}, sql.Named("milliseconds", 60_000))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return at.Time, later.Add(-time.Minute)
	}
	before, _ := readings()
	for _, step := range []time.Duration{time.Hour, 0, -90 * time.Second, 1500 * time.Millisecond, 0} {
		db.StepClock(step)
		alone, within := readings()
		for _, at := range []time.Time{alone, within} {
			// The run may be slow, never fast: what passed meanwhile is at most the difference.
			if passed := at.Sub(before.Add(step)); passed < 0 || passed > 30*time.Second {
				t.Errorf("stepped by %s the clock reads %s, %s before", step, at, before)
			}
		}
	}
}

func TestTSQLIsStepped(t *testing.T) {
	got := onClock(SQLServer, "SELECT CAST(SYSUTCDATETIME() AS datetime2(3))", -1500*time.Millisecond)
	if want := "SELECT CAST(DATEADD(millisecond, -1500, SYSUTCDATETIME()) AS datetime2(3))"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
