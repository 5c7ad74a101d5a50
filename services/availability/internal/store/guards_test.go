package store_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

const tsqlNow = "CAST(SYSUTCDATETIME() AS datetime2(3))"

// Where no SQL Server is at hand T-SQL is not executed, so that its guards are read: each must be a condition by itself.
func TestI15_StatementsInTSQLHaveTheSameGuards(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, guards := range map[string][]string{
		"take_lease":    {"Name = N'availability'", "ExpiresAt <= " + tsqlNow},
		"hold_lease":    {"Name = N'availability'", "FencingToken = @token", "ExpiresAt > " + tsqlNow},
		"release_lease": {"Name = N'availability'", "FencingToken = @token", "ExpiresAt > " + tsqlNow},
		"set_online": {
			"v.ServerKey = dbo.TblServer.ServerKey", "COALESCE(dbo.TblServer.Online, 0) <> v.Online", "dbo.TblServer.Type = N'BenefitManager'",
		},
		"update_switch": {"ServerKey = @serverKey", "Version = @version"},
		"delete_window": {"WindowKey = @windowKey", "ServerKey = @serverKey"},
		"mark_statuses": {"v.ServerKey = dbo.TblAvailabilityStatus.ServerKey"},
		"write_paths":   {"v.Path = dbo.TblAvailabilityPath.Path"},
		"advance":       {"StateKey = 1"},
	} {
		if got := conditions(statements[name]); !slices.Equal(got, guards) {
			t.Errorf("%s holds only where\n%q, want\n%q", name, got, guards)
		}
	}
	for name, moved := range map[string]string{
		"take_lease": "FencingToken = FencingToken + 1", "advance": "Revision = Revision + 1", "update_switch": "Version = Version + 1",
		"write_paths": "BrakeOrder = CASE WHEN dbo.TblAvailabilityPath.OrderedAt = v.EndedOrderedAt THEN 0 ELSE dbo.TblAvailabilityPath.BrakeOrder END",
	} {
		if !strings.Contains(strings.Join(strings.Fields(statements[name]), " "), moved) {
			t.Errorf("%s lacks %q", name, moved)
		}
	}
}

// conditions are what the last UPDATE's or DELETE's WHERE joins by AND.
func conditions(text string) []string {
	text = text[strings.LastIndex(text, "WHERE ")+len("WHERE "):]
	if end := strings.Index(text, ";"); end >= 0 {
		text = text[:end]
	}
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	depth, from := 0, 0
	for i := range text {
		switch {
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], " AND "):
			found, from = append(found, text[from:i]), i+len(" AND ")
		}
	}
	return append(found, text[from:])
}

// The legacy tables may carry triggers of others, whose counts the driver adds to ours: what was changed is told by rows.
func TestWhatIsChangedOfAServerIsToldByRows(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range statements {
		if strings.Contains(text, "UPDATE dbo.TblServer ") && !regexp.MustCompile(`(?s)OUTPUT inserted\.ServerKey, inserted\.Online INTO @changed.*SELECT ServerKey AS OwnResult, Online FROM @changed;$`).MatchString(text) {
			t.Errorf("%s is judged by a count that triggers of others add to", name)
		}
	}
}

func TestOfflineLogInTSQLIsReadInMillisecondsThroughout(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	text := statements["offline_log"]
	if cut := strings.ReplaceAll(text, "CAST(CreateDate AS datetime2(3))", ""); cut == text || strings.Contains(cut, "CreateDate") {
		t.Fatalf("an entry between two milliseconds would be lost between two pages:\n%s", text)
	}
}
