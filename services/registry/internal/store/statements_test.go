package store_test

import (
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlc-dev/teesql/ast"
	"github.com/sqlc-dev/teesql/parser"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

var (
	parameter = regexp.MustCompile(`@[A-Za-z]\w*`)
	declared  = regexp.MustCompile(`(?i)DECLARE\s+(@\w+)`)
)

func parametersOf(text string) []string {
	own := map[string]bool{}
	for _, match := range declared.FindAllStringSubmatch(text, -1) {
		own[match[1]] = true
	}
	var found []string
	for _, name := range parameter.FindAllString(text, -1) {
		if !own[name] && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func TestBothDialectsHaveTheSameStatements(t *testing.T) {
	server, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	file, err := sqldb.Statements(store.Statements(), sqldb.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range server {
		other, ok := file[name]
		if !ok {
			t.Errorf("%s is missing for SQLite", name)
			continue
		}
		if a, b := parametersOf(text), parametersOf(other); !slices.Equal(a, b) {
			t.Errorf("%s takes %v on SQL Server and %v on SQLite", name, a, b)
		}
	}
	for name := range file {
		if _, ok := server[name]; !ok {
			t.Errorf("%s is missing for SQL Server", name)
		}
	}
}

// checkTSQL tells what is wrong with T-SQL, as far as a parser can. The parser takes most nonsense for a call of a procedure or
// for a label; of procedures we call only those that are allowed by name, and we use no label.
func checkTSQL(t *testing.T, text string) error {
	script, err := parser.Parse(t.Context(), strings.NewReader(text))
	if err != nil {
		return err
	}
	count := 0
	for _, batch := range script.Batches {
		count += len(batch.Statements)
	}
	if count == 0 {
		return fmt.Errorf("no statement")
	}
	var found error
	walk(reflect.ValueOf(script), func(node any) {
		switch node := node.(type) {
		case *ast.ExecuteStatement:
			if called := procedureOf(node); called != "sp_getapplock" {
				found = fmt.Errorf("it is taken for a call of %q", called)
			}
		case *ast.LabelStatement:
			found = fmt.Errorf("it is taken for a %T", node)
		}
	})
	return found
}

// walk visits every node of a syntax tree.
func walk(value reflect.Value, visit func(node any)) {
	switch value.Kind() {
	case reflect.Interface:
		walk(value.Elem(), visit)
	case reflect.Pointer:
		if value.IsNil() {
			return
		}
		if value.CanInterface() {
			visit(value.Interface())
		}
		walk(value.Elem(), visit)
	case reflect.Struct:
		for i := range value.NumField() {
			walk(value.Field(i), visit)
		}
	case reflect.Slice:
		for i := range value.Len() {
			walk(value.Index(i), visit)
		}
	}
}

func procedureOf(call *ast.ExecuteStatement) string {
	entity, _ := call.ExecuteSpecification.ExecutableEntity.(*ast.ExecutableProcedureReference)
	if entity == nil || entity.ProcedureReference == nil || entity.ProcedureReference.ProcedureReference == nil {
		return ""
	}
	return entity.ProcedureReference.ProcedureReference.Name.BaseIdentifier.Value
}

// forbidden on SQL Server or Babelfish, or by our own rules.
var forbidden = regexp.MustCompile(`(?i)\bMERGE\b|CREATE\s+OR\s+ALTER|ALTER\s+COLUMN|\bUPDATE\s+[a-z]\s+SET\b|OUTPUT\s+(deleted|inserted)\.[^;]*?\bFROM\b(?s:.*)\z`)

func TestTSQLParses(t *testing.T) {
	t.Log("T-SQL is parsed here and not executed; the contract suite executes it where TEST_SQLSERVER_URL names a server")
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	migrations := store.Migrations().Files
	names, err := fs.Glob(migrations, "sqlserver/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal("no migrations", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		statements[name] = string(text)
	}
	for name, text := range statements {
		if err := checkTSQL(t, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if found := forbidden.FindString(text); found != "" && !strings.Contains(found, "INTO @") {
			t.Errorf("%s holds %q", name, found)
		}
	}
	for _, nonsense := range []string{"SELEC AgentKey FROM dbo.TblAgent", "SELECT AgentKey FRM dbo.TblAgent x y", "UPDATE dbo.TblAgent SE Name = 1", "DELETE FROM WHERE", "AgentKey: SELECT 1", ""} {
		if checkTSQL(t, nonsense) == nil {
			t.Errorf("the check takes %q", nonsense)
		}
	}
}

// otherClocks are ways of reading the clock that sqldb.StepClock does not find.
var otherClocks = regexp.MustCompile(`(?i)\b(GETDATE|GETUTCDATE|SYSDATETIME|SYSDATETIMEOFFSET|CURRENT_TIMESTAMP|CURRENT_TIME|CURRENT_DATE|unixepoch|julianday|SYSUTCDATETIME\s+\()|"now"`)

func TestTheClockIsReadInOneWay(t *testing.T) {
	for _, dialect := range []sqldb.Dialect{sqldb.SQLServer, sqldb.SQLite} {
		statements, err := sqldb.Statements(store.Statements(), dialect)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range statements {
			if found := otherClocks.FindString(text); found != "" {
				t.Errorf("%s reads the clock by %q (%s)", name, found, dialect)
			}
		}
	}
}

// What is counted is what is listed: the conditions of both statements are the same.
func TestListsAndTheirCountsChooseAlike(t *testing.T) {
	where := regexp.MustCompile(`(?s)\nWHERE (.*?)(\n\) q\n|;\s*$)`)
	for _, dialect := range []sqldb.Dialect{sqldb.SQLServer, sqldb.SQLite} {
		statements, err := sqldb.Statements(store.Statements(), dialect)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"agents", "servers"} {
			listed, counted := where.FindStringSubmatch(statements[list]), where.FindStringSubmatch(statements["count_"+list])
			if listed == nil || counted == nil || listed[1] != counted[1] {
				t.Errorf("%s of %v: %q is listed, and %q is counted", list, dialect, listed, counted)
			}
		}
	}
}

// SQL Server refuses a derived table of which a column has no name; others that speak its protocol do not.
func TestEveryColumnOfADerivedTableHasAName(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	statements["nameless"] = "SELECT q.* FROM (SELECT a.AgentKey, SYSUTCDATETIME() FROM dbo.TblAgent a) q"
	for name, text := range statements {
		script, err := parser.Parse(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatal(name, err)
		}
		nameless := 0
		walk(reflect.ValueOf(script), func(node any) {
			if derived, ok := node.(*ast.QueryDerivedTable); ok {
				nameless += namelessColumns(derived.QueryExpression)
			}
		})
		if (nameless > 0) != (name == "nameless") {
			t.Errorf("%s: %d columns of a derived table have no name", name, nameless)
		}
	}
}

// namelessColumns counts the columns without a name; of a union the first branch names them.
func namelessColumns(query ast.QueryExpression) (count int) {
	switch query := query.(type) {
	case *ast.BinaryQueryExpression:
		return namelessColumns(query.FirstQueryExpression)
	case *ast.QuerySpecification:
		for _, element := range query.SelectElements {
			scalar, ok := element.(*ast.SelectScalarExpression)
			if !ok || scalar.ColumnName != nil {
				continue
			}
			if _, column := scalar.Expression.(*ast.ColumnReferenceExpression); !column {
				count++
			}
		}
	}
	return count
}
