package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Whatever writes the cloud's state, agents and control servers at once, on two replicas, ends, and none is told of a deadlock.
func TestI16_WritersOfTheCloudDoNotDeadlock(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(60)
		w.create("east", store.GroupChange{AddServers: names(t, "a")})
		w.create("west", store.GroupChange{})
		w.settle()
		ctx := context.WithoutCancel(t.Context())
		const rounds = 6
		var agents []enrollment.Name
		var beats []enrollment.Heartbeat
		for i := range 60 {
			agent := fmt.Sprintf("BM-%06d", i+1)
			agents, beats = append(agents, parsed(t, agent)), append(beats, beat(t, agent, "a", 1, at(1)))
		}
		var group sync.WaitGroup
		writer := func(what string, act func(round int) error) {
			group.Go(func() {
				for round := range rounds {
					err := act(round)
					var stale *store.StaleEtagError
					if err != nil && !errors.As(err, &stale) && !errors.Is(err, store.ErrOvertaken) {
						t.Errorf("%s, round %d: %v", what, round, err)
					}
				}
			})
		}
		for replica, c := range map[string]*store.Cloud{"one": w.one, "two": w.two} {
			writer("partition by "+replica, func(int) error {
				s, err := c.Situation(ctx)
				if err != nil {
					return err
				}
				p, err := s.Directory.Repartition(s.Membership, s.Agents)
				if err != nil {
					return err
				}
				_, err = c.Commit(ctx, s, p)
				return err
			})
			writer("renewals by "+replica, func(int) error {
				_, _, err := c.Renew(ctx, candidate("a"), store.Reported{})
				return err
			})
			writer("groups by "+replica, func(round int) error {
				overview, err := c.Overview(ctx)
				if err != nil {
					return err
				}
				g := overview.Groups[round%2]
				change := store.GroupChange{AddAgents: agents, AddServers: names(t, "a", "b")}
				_, _, err = c.UpdateGroup(ctx, parsed(t, g.Name), g.Etag(), change, replica)
				return err
			})
		}
		writer("heartbeats", func(round int) error {
			batch := make([]enrollment.Heartbeat, len(beats))
			for i, b := range beats {
				b.Order.Sequence, b.Order.ObservedAt = int64(round)+2, at(round+2)
				batch[i] = b
			}
			_, _, err := w.store.RecordHeartbeats(ctx, batch)
			return err
		})
		group.Wait()
		if got := w.rows(`SELECT COUNT(*) FROM TblAgent WHERE LastBusHeartbeatAt IS NULL`); got != "0\n" {
			t.Errorf("agents without a heartbeat: %s", got)
		}
	})
}

// A trigger of another codebase may give result sets of its own, which come before the statement's.
func TestATriggerThatSelectsShiftsNoResult(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacyServers(engine), `CREATE TABLE TblTestSeen (Name nvarchar(128))`)
		raw.Run(t, raw.Of(`CREATE TRIGGER TestSelects AFTER UPDATE ON TblServer BEGIN SELECT NEW.Name; END`,
			`CREATE TRIGGER TestSelects ON TblServer AFTER INSERT, UPDATE AS SELECT 'a trigger' AS Told, Name FROM inserted`))
		if _, err := s.CreateServer(t.Context(), store.Server{Name: "BM-1", URL: "https://x", Type: store.ServerType}); err != nil {
			t.Fatal(err)
		}
		server, err := s.Server(t.Context(), store.ServerRef{Name: "BM-1"})
		if err != nil {
			t.Fatal(err)
		}
		url := "https://y"
		if after, err := s.UpdateServer(t.Context(), store.ServerRef{Name: "BM-1"}, server.Etag(), store.ServerChange{URL: &url}); err != nil || after.URL != url {
			t.Fatal(after, err)
		}
	})
}

// What several consumers say does not hang on the order in which their rows are read.
func TestI11_TheNewestReportTellsWhyAPathIsNotHeard(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		var told []string
		for _, consumers := range [][2]string{{"a", "b"}, {"b", "a"}} {
			s, raw := openBeside(t, engine)
			for i, canary := range []string{"NULL", "5"} { // the older has no canary, the newer no backlog to be read
				raw.Run(t, `INSERT INTO TblIngestEvidence (Path, ConsumerId, AliveAt, CanaryRoundTripMs) VALUES (1, '`+consumers[i]+`', `+raw.Since(raw.Now(), 5-3*i)+`, `+canary+`)`)
			}
			told = append(told, fleetOf(t, s).Bus.Detail)
			record(t, s, beat(t, "BM-1", "a", 1, at(1)))
			if _, health, err := s.Agent(t.Context(), name(t, "BM-1"), enrollment.Bus); err != nil || health.Detail != told[0] {
				t.Errorf("the agent's page tells %q, the fleet %q, %v", health.Detail, told[0], err)
			}
		}
		if told[0] != told[1] || told[0] != "a consumer reports, but its backlog is too old or cannot be read" {
			t.Errorf("%q", told)
		}
	})
}
