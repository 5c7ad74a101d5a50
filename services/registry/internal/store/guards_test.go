package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Nothing comes between read and write in SQLite, so the guards of the updates are tried one by one: each argument that is not
// the row's own any more must keep the statement from changing anything.
func TestI14_AnUpdateFromAnOldReadChangesNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		accepted := accept(t, s, "BM-1", true)
		liveness := func(version int) string {
			return fmt.Sprintf(`[[%d,%d,"2026-01-02T03:04:05.000Z",null,"z",7,"2026-01-02T03:04:05.000Z",null,null,0,null]]`, accepted.Key, version)
		}
		decision := map[string]any{"agentKey": accepted.Key, "version": accepted.DecisionVersion}
		for _, row := range []struct {
			statement string
			args      map[string]any
			stale     map[string]any
		}{
			{"update_liveness", map[string]any{"batch": liveness(2)}, map[string]any{"batch": liveness(1)}},
			{"update_server", map[string]any{
				"serverKey": accepted.ServerKey, "name": "BM-1", "url": "https://BM-1", "type": store.ServerType, "active": 1,
				"newName": "BM-1", "newUrl": "https://BM-1/new", "newType": store.ServerType, "newActive": 1, "setName": 1, "setUrl": 1, "setType": 1, "setActive": 1,
			}, map[string]any{"serverKey": accepted.ServerKey + 1, "name": "bm-1", "url": "https://bm-1", "type": "benefitmanager", "active": 0}},
			{"update_reach", store.With(store.With(decision, "httpBaseUrl", "http://127.0.0.1:9"), "onServiceBus", 1), map[string]any{"version": accepted.DecisionVersion - 1}},
			{"decide", map[string]any{"agentKey": accepted.Key, "version": accepted.DecisionVersion + 1, "state": 3, "serverKey": accepted.ServerKey, "actor": "x"}, map[string]any{"version": accepted.DecisionVersion}},
			{"resolve_conflict", store.With(decision, "version", accepted.DecisionVersion+2), map[string]any{"version": accepted.DecisionVersion + 1}},
			{"reset_token", store.With(decision, "version", accepted.DecisionVersion+3), map[string]any{"version": accepted.DecisionVersion + 2}},
			{"claim_name", map[string]any{"batch": fmt.Sprintf(`[[%d,"00ff"]]`, accepted.Key)}, map[string]any{"batch": fmt.Sprintf(`[[%d,"00ff"]]`, accepted.Key+1)}},
			{"remove_agent", store.With(decision, "version", accepted.DecisionVersion+4), map[string]any{"version": accepted.DecisionVersion + 3}},
		} {
			for parameter, value := range row.stale {
				if rows, err := s.Run(t.Context(), row.statement, store.With(row.args, parameter, value)); err != nil || rows != 0 {
					t.Errorf("%s with an old %s changed %d rows: %v", row.statement, parameter, rows, err)
				}
			}
			if rows, err := s.Run(t.Context(), row.statement, row.args); err != nil || rows != 1 {
				t.Errorf("%s with what is there changed %d rows: %v", row.statement, rows, err)
			}
			if rows, err := s.Run(t.Context(), row.statement, row.args); err != nil || rows != 0 {
				t.Errorf("%s run again changed %d rows, so that it moved its guard nowhere: %v", row.statement, rows, err)
			}
		}
	})
}

// sameBytes compares texts as they are, whatever the collation.
func sameBytes(column, parameter string) string {
	return "CAST(CAST(" + column + " AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(" + parameter + " AS nvarchar(max)) AS varbinary(max))"
}

// T-SQL is not executed here, so that its guards are read: each must be a condition by itself.
func TestI14_UpdatesInTSQLHaveTheSameGuards(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, guards := range map[string][]string{
		"update_liveness": {"v.AgentKey = dbo.TblAgent.AgentKey", "v.HeartbeatVersion = dbo.TblAgent.HeartbeatVersion"},
		"update_server": {
			"ServerKey = @serverKey", "COALESCE(Active, 0) = @active", sameBytes("Name", "@name"), sameBytes("COALESCE(Url, N'')", "COALESCE(@url, N'')"),
			sameBytes("COALESCE(dbo.TblServer.Type, N'')", "COALESCE(@type, N'')"),
		},
		"update_reach":     {"AgentKey = @agentKey", "DecisionVersion = @version"},
		"decide":           {"AgentKey = @agentKey", "DecisionVersion = @version"},
		"resolve_conflict": {"AgentKey = @agentKey", "DecisionVersion = @version"},
		"reset_token":      {"AgentKey = @agentKey", "DecisionVersion = @version"},
		"claim_name":       {"v.AgentKey = dbo.TblAgent.AgentKey", "dbo.TblAgent.TokenHash IS NULL", "dbo.TblAgent.TokenClaimable = 1"},
		"remove_agent":     {"AgentKey = @agentKey", "DecisionVersion = @version"},
		"claim_verifications": {
			"v.AgentKey = dbo.TblAgent.AgentKey", "(dbo.TblAgent.HttpClaimedUntil IS NULL OR dbo.TblAgent.HttpClaimedUntil < CAST(@now AS datetime2(3)) OR dbo.TblAgent.HttpClaimedUntil > CAST(@stepped AS datetime2(3)))",
		},
		"record_verification": {
			"NameKey = @nameKey", "HttpBaseUrl = @httpBaseUrl",
			"(HttpVerifiedAt IS NULL OR HttpVerifiedAt < CAST(@verifiedAt AS datetime2(3)) OR HttpVerifiedAt > CAST(@now AS datetime2(3)) OR (HttpVerifiedAt = CAST(@verifiedAt AS datetime2(3)) AND (@outcome = 2 OR HttpVerification <> 2)))",
		},
	} {
		if got := conditions(statements[name]); !slices.Equal(got, guards) {
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(guards))) {
				t.Errorf("%s holds only where\n%q, want\n%q", name, got, guards)
			}
		}
	}
	for name, moved := range map[string]string{
		"update_liveness": "HeartbeatVersion      = dbo.TblAgent.HeartbeatVersion + 1",
		"update_reach":    "DecisionVersion = DecisionVersion + 1", "decide": "DecisionVersion = DecisionVersion + 1", "resolve_conflict": "DecisionVersion = DecisionVersion + 1",
		"reset_token": "DecisionVersion = DecisionVersion + 1, HeartbeatVersion = HeartbeatVersion + 1", "claim_name": "TokenClaimable = 0",
	} {
		if !strings.Contains(statements[name], moved) {
			t.Errorf("%s does not move its guard on", name)
		}
	}
}

// conditions are what the last WHERE of a statement joins by AND.
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

// The driver for SQL Server adds the counts of triggers' statements to that of ours.
func TestOnlyNoRowIsAConflict(t *testing.T) {
	for rows, conflict := range map[int64]bool{0: true, 1: false, 2: false} {
		if err := store.Changed(rows, nil); errors.Is(err, sqldb.ErrConflict) != conflict {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range statements {
		if strings.Contains(text, "UPDATE dbo.TblServer ") && !regexp.MustCompile(`(?s)OUTPUT inserted\.ServerKey INTO @changed.*SELECT ServerKey AS OwnResult FROM @changed;$`).MatchString(text) {
			t.Errorf("%s is judged by a count that triggers of others add to", name)
		}
	}
}

func TestReplicasWriteInOneOrder(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for range 20 {
			order := store.WritesOrder([]int64{7, 3, 9, 1, 12, 5, 2})
			if len(order) != 4 {
				t.Fatal(order)
			}
			for statement, keys := range order {
				if !slices.Equal(keys, []int64{1, 2, 3, 5, 7, 9, 12}) {
					t.Fatalf("%s writes %v", statement, keys)
				}
			}
		}
		s := open(t, engine)
		record(t, s, beat(t, "c", "x", 1, at(1)), beat(t, "A", "x", 1, at(1)), beat(t, "D", "x", 1, at(1)), beat(t, "b", "x", 1, at(1)))
		agents, _, _, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name"}, 10, nil)
		if err != nil || !slices.IsSortedFunc(agents, func(a, b store.Agent) int { return int(a.Key - b.Key) }) {
			t.Fatal("inserted in another order than that of their keys", agents, err)
		}
	})
}

func TestI2_ALateVerificationTellsNothingNewer(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		const base = "http://127.0.0.1:9"
		if _, _, err := s.Add(t.Context(), name(t, "QA-1"), base, &store.Server{URL: "https://qa"}, "tester"); err != nil {
			t.Fatal(err)
		}
		const succeeded, failed = 1, 2
		for _, step := range []struct {
			what     string
			outcome  int
			age      time.Duration
			recorded bool
		}{
			{"the first", succeeded, time.Hour, true},
			{"a failure after it", failed, 10 * time.Second, true},
			{"a success that began before that failure", succeeded, time.Minute, false},
			{"a failure that began before that failure", failed, time.Minute, false},
			{"a success after it", succeeded, 0, true},
		} {
			before := read(t, s, "QA-1")
			after, recorded, err := s.RecordVerification(t.Context(), name(t, "QA-1"), store.Verification{BaseURL: base, Outcome: step.outcome, Age: step.age})
			if err != nil || recorded != step.recorded {
				t.Fatalf("%s: recorded %v, %v", step.what, recorded, err)
			}
			if want := map[bool]int{true: step.outcome, false: before.Verification}[recorded]; after.Verification != want || after.VerifiedAt.Equal(before.VerifiedAt) == recorded {
				t.Fatalf("%s: %+v", step.what, after)
			}
		}
		tie := map[string]any{"nameKey": name(t, "QA-1").Key, "httpBaseUrl": base, "detail": "", "outcome": succeeded, "verifiedAt": "2999-01-02T03:04:05.000Z", "now": "2999-01-02T03:04:05.000Z"}
		for i, step := range []struct {
			outcome int
			rows    int64
		}{{succeeded, 1}, {failed, 1}, {succeeded, 0}, {failed, 1}} {
			if rows, err := s.Run(t.Context(), "record_verification", store.With(tie, "outcome", step.outcome)); err != nil || rows != step.rows {
				t.Errorf("tie %d: %d rows, %v; of two that began at once the failure stays", i, rows, err)
			}
		}
	})
}
