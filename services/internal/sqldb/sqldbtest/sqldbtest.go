// Package sqldbtest runs the tests of a store on each engine that it is for: on SQLite always, and on the server that TEST_SQLSERVER_URL names.
// Each test gets an empty database, and beside the store a connection to it by hand, for what only another program would do.
package sqldbtest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// Variable names the environment variable that holds the URL of a SQL Server's database for tests. Tests drop every table in it.
const Variable = "TEST_SQLSERVER_URL"

// Engine makes empty databases of one kind.
type Engine struct {
	Dialect sqldb.Dialect
	server  string // URL of the database for tests; empty for SQLite
}

// SQLite is the engine of tests of what only SQLite has: its files, and its lock.
var SQLite = Engine{Dialect: sqldb.SQLite}

// Engines are those that tests run on.
func Engines() []Engine {
	engines := []Engine{SQLite}
	if url := os.Getenv(Variable); url != "" {
		engines = append(engines, Engine{Dialect: sqldb.SQLServer, server: url})
	}
	return engines
}

// Run runs a test on each engine, as a subtest that is named after the dialect.
func Run(t *testing.T, test func(t *testing.T, engine Engine)) {
	for _, engine := range Engines() {
		t.Run(string(engine.Dialect), func(t *testing.T) { test(t, engine) })
	}
}

// Database is one database, which was empty when the test got it.
type Database struct {
	*sql.DB // by hand
	Dialect sqldb.Dialect
	URL     string // as services take it
}

// Empty gives a database without any table, after some statements by hand. On a server it is the same each time, so that what an earlier call
// gave must not be used any more.
func (e Engine) Empty(t testing.TB, before ...string) *Database {
	t.Helper()
	driver, name, url := "sqlite", "", e.server
	if e.Dialect == sqldb.SQLite {
		path := filepath.Join(t.TempDir(), "fleet.db")
		name, url = "file:"+path+"?_pragma=busy_timeout(5000)", "sqlite:"+path
	} else {
		driver, name = "sqlserver", e.server
	}
	raw, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	d := &Database{DB: raw, Dialect: e.Dialect, URL: url}
	if e.Dialect == sqldb.SQLServer {
		d.drop(t)
	}
	d.Run(t, before...)
	return d
}

// known are the tables that the services' migrations and their tests make. A database that holds another is none for tests.
var known = regexp.MustCompile(`(?i)^(Tbl(Server|ServerOfflineLog|ServerName|Agent|AgentReceiver|IngestEvidence|FormerLink|ControlServer|AffinityGroup|PartitionEvent|CloudState|Registry\w+|` +
	`JobLease|Availability\w+|Maintenance\w+|Test\w*)|(registry|availability)_schema_version)$`)

// drop drops every table, and with them their triggers.
func (d *Database) drop(t testing.TB) {
	t.Helper()
	tables := d.texts(t, `SELECT name FROM sys.tables WHERE SCHEMA_NAME(schema_id) = N'dbo' AND is_ms_shipped = 0`)
	for _, table := range tables {
		if !known.MatchString(table) {
			t.Fatalf("%s names a database that holds the table %s, which is none of the services' tests: nothing was dropped; name a database for tests", Variable, table)
		}
	}
	for _, table := range tables {
		d.Run(t, "DROP TABLE dbo.["+table+"]")
	}
}

func (d *Database) texts(t testing.TB, query string) []string {
	t.Helper()
	rows, err := d.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(query, err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		found = append(found, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// Run runs statements that both dialects understand, or that are for this one.
func (d *Database) Run(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		d.Exec(t, statement)
	}
}

// Exec runs a statement with the parameters @p1, @p2, and so on.
func (d *Database) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), statement, numbered(args)...); err != nil {
		t.Fatal(statement, err)
	}
}

func numbered(args []any) []any {
	named := make([]any, len(args))
	for i, arg := range args {
		named[i] = sql.Named(fmt.Sprintf("p%d", i+1), arg)
	}
	return named
}

// Number is what a query of one number gives.
func (d *Database) Number(t testing.TB, query string) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(query, err)
	}
	return n
}

// Text is everything that a query gives, a line per row. Truth values are 1 and 0 in either dialect.
func (d *Database) Text(t testing.TB, query string) string {
	t.Helper()
	found, err := d.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(query, err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for i, value := range values {
			switch value := value.(type) {
			case bool:
				values[i] = map[bool]int{true: 1}[value]
			case []byte:
				values[i] = string(value)
			}
		}
		fmt.Fprintln(&text, values...)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// Of is the text for this dialect.
func (d *Database) Of(sqlite, sqlserver string) string {
	if d.Dialect == sqldb.SQLite {
		return sqlite
	}
	return sqlserver
}

// Now is an expression for the database's clock.
func (d *Database) Now() string {
	return d.Of("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", "CAST(SYSUTCDATETIME() AS datetime2(3))")
}

// Since is an expression for an instant some seconds before another.
func (d *Database) Since(instant string, seconds int) string {
	if d.Dialect == sqldb.SQLite {
		return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', %s, '%d seconds')", instant, -seconds)
	}
	return fmt.Sprintf("DATEADD(second, %d, %s)", -seconds, instant)
}

// Refuse lets a table refuse rows to be inserted, or deleted, until Allow. The database's error is one of a trigger.
func (d *Database) Refuse(t testing.TB, verb, table string) {
	t.Helper()
	d.Run(t, d.Of("CREATE TRIGGER TestRefuse BEFORE "+verb+" ON "+table+" BEGIN SELECT RAISE(ABORT, 'no'); END",
		"CREATE TRIGGER TestRefuse ON "+table+" AFTER "+verb+" AS THROW 50000, N'no', 1"))
}

// Allow ends Refuse.
func (d *Database) Allow(t testing.TB) {
	t.Helper()
	d.Run(t, "DROP TRIGGER TestRefuse")
}

// Note notes the keys of a table's rows that are updated, each time they are, from now on; they are read from TblTestWritten.
func (d *Database) Note(t testing.TB, table, key string) {
	t.Helper()
	if d.Dialect == sqldb.SQLite {
		d.Run(t, "CREATE TABLE IF NOT EXISTS TblTestWritten (WrittenKey INTEGER)", "DELETE FROM TblTestWritten",
			"CREATE TRIGGER IF NOT EXISTS TestNote AFTER UPDATE ON "+table+" BEGIN INSERT INTO TblTestWritten VALUES (NEW."+key+"); END")
		return
	}
	if d.Number(t, "SELECT COUNT(*) FROM sys.tables WHERE name = N'TblTestWritten'") == 0 {
		d.Run(t, "CREATE TABLE TblTestWritten (WrittenKey bigint)",
			"CREATE TRIGGER TestNote ON "+table+" AFTER UPDATE AS INSERT INTO TblTestWritten (WrittenKey) SELECT "+key+" FROM inserted")
	}
	d.Run(t, "DELETE FROM TblTestWritten")
}
