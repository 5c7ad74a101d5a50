package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Nothing comes between read and write in SQLite, so the guards are tried one by one.
func TestI14_CloudUpdatesFromAnOldReadChangeNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.create("east", store.GroupChange{})
		server := map[string]any{"key": 1, "decisionVersion": 1}
		group := map[string]any{"key": 1, "decisionVersion": 1}
		state := map[string]any{"seen": 0, "epoch": 1, "directoryVersion": 1, "directory": "[]", "agents": 0, "requests": 0}
		for _, row := range []struct {
			statement string
			args      map[string]any
			stale     map[string]any
		}{
			{"update_control_server", with(server, "mode", 2, "weight", 5, "standby", 1, "group", nil, "actor", "x"), map[string]any{"key": 9, "decisionVersion": 2}},
			{"remove_control_server", with(server, "decisionVersion", 2), map[string]any{"key": 9, "decisionVersion": 1}},
			{"update_affinity_group", with(group, "name", "E", "nameKey", "e"), map[string]any{"key": 9, "decisionVersion": 2}},
			{"delete_affinity_group", with(group, "decisionVersion", 2), map[string]any{"key": 9, "decisionVersion": 1}},
			{"write_cloud_state", state, map[string]any{"seen": 1, "requests": -1}},
		} {
			for parameter, value := range row.stale {
				if rows, err := w.store.Run(t.Context(), row.statement, store.With(row.args, parameter, value)); err != nil || rows != 0 {
					t.Errorf("%s with an old %s changed %d rows: %v", row.statement, parameter, rows, err)
				}
			}
			for again, want := range []int64{1, 0} {
				if rows, err := w.store.Run(t.Context(), row.statement, row.args); err != nil || rows != want {
					t.Errorf("%s, time %d, changed %d rows: %v", row.statement, again+1, rows, err)
				}
			}
		}
	})
}

func with(args map[string]any, pairs ...any) map[string]any {
	for i := 0; i < len(pairs); i += 2 {
		args = store.With(args, pairs[i].(string), pairs[i+1])
	}
	return args
}

// T-SQL is not executed here, so that its guards are read.
func TestI14_CloudUpdatesInTSQLHaveTheSameGuards(t *testing.T) {
	statements, err := sqldb.Statements(store.Statements(), sqldb.SQLServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, guards := range map[string][]string{
		"update_control_server": {"ControlServerKey = @key", "DecisionVersion = @decisionVersion"},
		"remove_control_server": {"ControlServerKey = @key", "DecisionVersion = @decisionVersion"},
		"update_affinity_group": {"GroupKey = @key", "DecisionVersion = @decisionVersion"},
		"delete_affinity_group": {"GroupKey = @key", "DecisionVersion = @decisionVersion"},
		"write_cloud_state":     {"StateKey = 1", "Epoch = @seen", "RequestsServed <= @requests"},
		"leave_cloud":           {"NameKey = @nameKey", "GrpcEndpoint = @grpcEndpoint", "RenewedAt > CAST(@endedAt AS datetime2(3))"},
		"assign_agents":         {"m.AgentKey = dbo.TblAgent.AgentKey"},
		"mark_listings":         {"m.ControlServerKey = dbo.TblControlServer.ControlServerKey"},
		"enter_affinity_group":  {"n.NameKey = dbo.TblAgent.NameKey", "(dbo.TblAgent.AffinityGroupKey IS NULL OR dbo.TblAgent.AffinityGroupKey <> @group)"},
		"quit_affinity_group":   {"n.NameKey = dbo.TblAgent.NameKey", "dbo.TblAgent.AffinityGroupKey = @group"},
		"empty_affinity_group":  {"a.AffinityGroupKey = @group ORDER BY a.AgentKey)"},
	} {
		if got := conditions(statements[name]); !slices.Equal(got, guards) {
			t.Errorf("%s holds only where %q, want %q", name, got, guards)
		}
	}
	for name, moved := range map[string]string{
		"update_control_server": "DecisionVersion = DecisionVersion + 1", "update_affinity_group": "DecisionVersion = DecisionVersion + 1",
		"write_cloud_state": "SET Epoch = @epoch",
	} {
		if !strings.Contains(statements[name], moved) {
			t.Errorf("%s does not move its guard on", name)
		}
	}
}
