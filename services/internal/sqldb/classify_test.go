package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

func TestErrorsAreClassified(t *testing.T) {
	for _, row := range []struct {
		number              int32
		class               uint8
		transient, rejected bool
	}{
		{1205, 13, true, false}, {40613, 17, true, false}, {49920, 16, true, false}, // deadlock, failing over, throttled
		{2627, 14, true, false}, {2601, 14, true, false}, // another was first
		{2628, 16, false, true}, {8152, 16, false, true}, {515, 16, false, true}, {13609, 16, false, true}, // the data
		{3906, 16, false, false},                            // a read-only secondary after a failover
		{208, 16, false, false},                             // a table is missing
		{1222, 16, false, false}, {10928, 16, false, false}, // a lock timeout, Azure's limits
		{9002, 17, false, false}, {229, 14, false, false}, {18456, 14, false, false}, // log full, no right, no login
	} {
		err := fmt.Errorf("statement: %w", mssql.Error{Number: row.number, Class: row.class})
		if Transient(err) != row.transient || Rejected(err) != row.rejected {
			t.Errorf("%d: transient %v, rejected %v", row.number, Transient(err), Rejected(err))
		}
	}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded, errors.New("connection reset")} {
		if Transient(err) || Rejected(err) {
			t.Errorf("%v: transient %v, rejected %v", err, Transient(err), Rejected(err))
		}
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:/tmp/a b.db": "", "sqlserver://u:p@host?database=d&encrypt=true": "", "sqlserver://u:p@host?database=d&encrypt=disable": "",
		"sqlserver://u:p@host?database=d&encrypt=banana": "banana", "sqlserver://u:p@host?encrypt=true&connection+timeout=x": "timeout", "sqlserver://u:p@host?Encrypt=strict": "",
		"sqlserver://host?database=d&encrypt=true": "names no user", "sqlserver://u:p@host:1433/INSTANCE?database=d&encrypt=true": "INSTANCE",
		"sqlserver://u:p@host?initial+catalog=d&encrypt=true": "initial catalog", "sqlserver://u:p@host?database=d&encrypt=true&pooling=true": "pooling",
		"sqlserver://u:p@host?database=d&encrypt=true&ApplicationIntent=readonly": "read-only replica",
		// Sign-in without a password.
		"sqlserver://host?database=d&encrypt=true&fedauth=ActiveDirectoryManagedIdentity": "", "sqlserver://client-id@host?database=d&encrypt=true&FedAuth=activedirectorymsi": "",
		"sqlserver://host?database=d&encrypt=true&fedauth=ActiveDirectoryDefault": "", "sqlserver://app%40tenant:p@host?database=d&encrypt=true&fedauth=ActiveDirectoryServicePrincipal": "",
		"sqlserver://host?database=d&encrypt=true&fedauth=ActiveDirectoryServicePrincipal": "fedauth", "sqlserver://host?database=d&encrypt=true&fedauth=ActiveDirectoryInteractive": "none that a service can use",
		"sqlserver://host?database=d&encrypt=true&fedauth=Kerberos": "none that a service can use", "sqlserver://host?database=d&encrypt=disable&fedauth=ActiveDirectoryManagedIdentity": "needs encrypt=true",
		"sqlserver://host?database=d&encrypt=true&fedauth=ActiveDirectoryWorkloadIdentity": "cannot work here", // without its environment
		"": "must be", "sqlite:": "must be", "sqlite:a?mode=memory": "must be", "postgres://x": "must be", "sqlserver://u:p@host?database=d": "encrypt",
	} {
		err := CheckURL(url)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: the error shows the password", url)
		}
	}
}

func openFile(t *testing.T) *DB {
	t.Helper()
	db, err := Open("sqlite:"+filepath.Join(t.TempDir(), "a b%20c.db"), fstest.MapFS{
		"sqlite/add.sql": {Data: []byte("INSERT INTO T (K) VALUES (@k)")}, "sqlite/count.sql": {Data: []byte("SELECT COUNT(*) FROM T")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Writer().ExecContext(t.Context(), "CREATE TABLE T (K INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func count(t *testing.T, db *DB) int64 {
	t.Helper()
	var n int64
	if err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Row(t.Context(), "count", []any{&n}); return err }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAViewChangesNothing(t *testing.T) {
	db := openFile(t)
	err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Exec(t.Context(), "add", sql.Named("k", 1)); return err })
	if err == nil || count(t, db) != 0 {
		t.Fatal("a view wrote", err)
	}
}

func TestAChangeIsRunAgainWholeAndBounded(t *testing.T) {
	db := openFile(t)
	runs := 0
	err := db.Change(t.Context(), func(tx *Tx) error {
		runs++
		if _, err := tx.Exec(t.Context(), "add", sql.Named("k", runs)); err != nil {
			return err
		}
		if runs < 3 {
			return ErrConflict
		}
		return nil
	})
	if err != nil || runs != 3 || count(t, db) != 1 {
		t.Fatalf("%v after %d runs, %d rows: what an attempt wrote must not stay", err, runs, count(t, db))
	}
	runs = 0
	err = db.Change(t.Context(), func(*Tx) error { runs++; return ErrConflict })
	if !errors.Is(err, ErrConflict) || runs != attempts {
		t.Fatalf("%v after %d runs", err, runs)
	}
	runs = 0
	failure := errors.New("final")
	if err := db.Change(t.Context(), func(*Tx) error { runs++; return failure }); !errors.Is(err, failure) || runs != 1 {
		t.Fatalf("%v after %d runs", err, runs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Change(ctx, func(*Tx) error { cancel(); return ErrConflict })
	if !errors.Is(err, context.Canceled) {
		t.Fatal("a cancelled caller waits on:", err)
	}
}

// With the environment that Kubernetes' webhook sets, the sign-in by workload identity is taken, and the driver is the one that does it.
func TestWorkloadIdentity(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("not-a-real-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_CLIENT_ID", "00000000-0000-0000-0000-000000000001")
	t.Setenv("AZURE_TENANT_ID", "00000000-0000-0000-0000-000000000002")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", token)
	const url = "sqlserver://host?database=d&encrypt=true&fedauth=activedirectoryworkloadidentity"
	if err := CheckURL(url); err != nil {
		t.Fatal(err)
	}
	_, name, err := source(url)
	if err != nil || !strings.Contains(name, "fedauth=ActiveDirectoryWorkloadIdentity") {
		t.Errorf("the driver gets %q: %v", name, err) // it compares the case when it asks for a token
	}
}

// A database server that takes the connection and never says a word ends the log-in when its caller's time ends.
func TestALogInEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, encrypt := range []string{"true", "strict", "disable"} {
		db, err := Open("sqlserver://u:p@"+listener.Addr().String()+"?database=d&encrypt="+encrypt, fstest.MapFS{"sqlserver/x.sql": {Data: []byte("SELECT 1")}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		err = db.Ping(ctx)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > loginTimeout*3/4 {
			t.Errorf("encrypt=%s: after %s: %v", encrypt, took, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
