package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// One folding, whatever the table's own collation: SQLite's NOCASE knows only ASCII, and BINARY nothing.
func TestI13_NamesOfServersAreComparedAsAgentsNamesAre(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		for _, collation := range []string{" COLLATE Latin1_General_CI_AS", " COLLATE Latin1_General_BIN2", ""} {
			s, raw := openBeside(t, engine, legacy(engine, `Name nvarchar(128)`+collation+` NOT NULL, Url nvarchar(2048) NULL, Type nvarchar(128) NULL, Active bit NULL, Online bit NULL, Region nvarchar(128) NULL`))
			for i, pair := range [][2]string{{"ÄRGER", "ärger"}, {"Straße-4", "STRASSE-4"}, {"A\u030a-5", "Å-5"}, {"SP-1", "sp-1"}, {"\u212aelvin", "kelvin"}, {"ΟΔΟΣ", "οδος"}} {
				raw.Exec(t, `INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES (@p1, 'https://x', 'BenefitManager', 1, 0)`, pair[0])
				for _, asked := range []string{pair[0], pair[1], " " + pair[1] + " "} {
					if server, err := s.Server(t.Context(), store.ServerRef{Name: asked}); err != nil || server.Name != pair[0] {
						t.Errorf("%s: %q is asked for as %q: %+v %v", collation, pair[0], asked, server, err)
					}
				}
				var taken *store.NameTakenError
				if _, err := s.CreateServer(t.Context(), store.Server{Name: pair[1], URL: "https://x", Type: store.ServerType}); !errors.As(err, &taken) {
					t.Errorf("%q beside %q: %v", pair[1], pair[0], err)
				}
				record(t, s, beat(t, pair[1], "b", 1, at(i+1)))
				if agent := accept(t, s, pair[1], false); agent.Server == nil || agent.Server.Name != pair[0] {
					t.Errorf("%q is not linked to %q: %+v", pair[1], pair[0], agent)
				}
			}
		}
	})
}

// The other codebase writes names too. What the table of folded names says of a row that was renamed, deleted or made meanwhile is not believed.
func TestI18_ARowThatAnotherCodebaseWroteIsFoundByItsNameOfNow(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine, legacy(engine, `Name nvarchar(128) COLLATE Latin1_General_CI_AS NOT NULL, Url nvarchar(2048) NULL, Type nvarchar(128) NULL, Active bit NULL, Online bit NULL, Region nvarchar(128) NULL`))
		raw.Exec(t, `INSERT INTO TblServer (Name, Url, Type, Active) VALUES (@p1, 'https://x', 'BenefitManager', 1)`, "ÖL-1")
		find := func(name string) (int64, error) {
			server, err := s.Server(t.Context(), store.ServerRef{Name: name})
			return server.Key, err
		}
		change := func(statement string) {
			t.Helper()
			raw.Run(t, strings.ReplaceAll(statement, "N'", raw.Of("'", "N'")))
		}
		if key, err := find("öl-1"); err != nil || key != 1 {
			t.Fatal(key, err)
		}
		change(`UPDATE TblServer SET Name = N'ÜL-1'`)
		var none *store.ServerNotFoundError
		if _, err := find("öl-1"); !errors.As(err, &none) {
			t.Error("the old name is found still:", err)
		}
		if key, err := find("ül-1"); err != nil || key != 1 {
			t.Error("the new name is not found:", err)
		}
		change(`INSERT INTO TblServer (Name, Url, Type, Active) VALUES (N'ül-1', 'https://y', 'BenefitManager', 1)`)
		var several *store.ServerAmbiguousError
		if _, err := find("ÜL-1"); !errors.As(err, &several) || !slices.Equal(several.Keys, []int64{1, 2}) {
			t.Error("a double is not told:", err)
		}
		// The way out: one of them is renamed by its key.
		double, err := s.Server(t.Context(), store.ServerRef{Key: 2})
		if err != nil || double.URL != "https://y" {
			t.Fatal(double, err)
		}
		spare := "ül-1 (double)"
		if _, err := s.UpdateServer(t.Context(), store.ServerRef{Key: 2}, double.Etag(), store.ServerChange{Name: &spare}); err != nil {
			t.Fatal(err)
		}
		if key, err := find("ÜL-1"); err != nil || key != 1 {
			t.Error("it is ambiguous still:", err)
		}
		change(`DELETE FROM TblServer`)
		if _, err := find("ÜL-1"); !errors.As(err, &none) {
			t.Error("a deleted one is found:", err)
		}
		if _, err := s.Server(t.Context(), store.ServerRef{Key: 2}); !errors.As(err, &none) {
			t.Error("a deleted one is found by its key:", err)
		}
		if keys := raw.Number(t, `SELECT COUNT(*) FROM TblServerName`); keys > 2 {
			t.Error(keys)
		}
	})
}

func TestSearchesFoldAsNamesDo(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		b := beat(t, "SP-1", "a", 1, at(1))
		b.Content.Hostname = "münchen-server"
		record(t, s, b)
		if agents, _, _, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Query: "MÜNCHEN"}, 10, nil); err != nil || len(agents) != 1 {
			t.Error("by host name:", agents, err)
		}
		if _, err := s.CreateServer(t.Context(), store.Server{Name: "Straße-4", URL: "https://X.example.test", Type: store.ServerType}); err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{"STRASSE", "straße", "x.EXAMPLE"} {
			if servers, _, _, err := s.Servers(t.Context(), store.ServerFilter{HasAgent: -1, Query: query}, 10, nil); err != nil || len(servers) != 1 {
				t.Errorf("%s: %v %v", query, servers, err)
			}
		}
	})
}

// A host name stored by the release before, without its key, is searched for by the next heartbeat's.
func TestAHostNameWithoutItsKeyGetsOne(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		b := beat(t, "SP-1", "a", 1, at(1))
		b.Content.Hostname = "münchen"
		record(t, s, b)
		raw.Run(t, `UPDATE TblAgent SET HostnameKey = NULL`)
		b.Order.Sequence, b.Order.ObservedAt = 2, at(2)
		record(t, s, b)
		if agents, _, _, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Query: "MÜNCHEN"}, 10, nil); err != nil || len(agents) != 1 {
			t.Error(agents, err)
		}
	})
}

// BenchmarkServerByName asks for one server of many by name, with the table of folded names complete and after a whole import.
func BenchmarkServerByName(b *testing.B) {
	for _, servers := range []int{1_000, 10_000, 100_000} {
		s, raw := openBeside(b, sqldbtest.SQLite)
		raw.Exec(b, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @p1) INSERT INTO TblServer (Name, Url, Type, Active, Online) SELECT 'Straße-' || i, 'https://x', 'BenefitManager', 1, 0 FROM n`, servers)
		begin := time.Now()
		if _, err := s.Server(b.Context(), store.ServerRef{Name: "STRASSE-7"}); err != nil {
			b.Fatal(err)
		}
		b.Logf("%d servers: the first call after an import took %s", servers, time.Since(begin))
		s.SettleNames(b.Context())
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Server(b.Context(), store.ServerRef{Name: "STRASSE-7"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
