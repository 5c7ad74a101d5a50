package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func astray(t *testing.T, s *store.Store, agents, relinkable int64) {
	t.Helper()
	if a, r, err := s.Astray(t.Context()); err != nil || a != agents || r != relinkable {
		t.Errorf("%d agents are astray, %d of them can be relinked (%v); want %d, %d", a, r, err, agents, relinkable)
	}
}

func relink(t *testing.T, s *store.Store, agent string) (store.Agent, error) {
	t.Helper()
	relinked, _, err := s.Relink(t.Context(), name(t, agent), read(t, s, agent).Etag(), "op")
	return relinked, err
}

// Another codebase deletes a server's row and makes it again: seen, said, and relinked by one act of an operator.
func TestI18_AnAgentWhoseRowWasMadeAgainIsRelinkedByName(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		insert := `INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES (@p1, 'https://x', 'BenefitManager', 1, 1)`
		for i, agent := range []string{"ÖL-1", "SP-2", "SP-3"} {
			raw.Exec(t, insert, agent)
			record(t, s, beat(t, agent, "b", 1, at(i+1)))
			accept(t, s, agent, false)
		}
		astray(t, s, 0, 0)
		var fine *store.NotAstrayError
		if _, err := relink(t, s, "öl-1"); !errors.As(err, &fine) {
			t.Errorf("one that is linked: %v", err)
		}
		raw.Run(t, `DELETE FROM TblServer WHERE Name <> 'SP-3'`)
		astray(t, s, 2, 0)
		var none *store.NoServerToRelinkError
		if _, err := relink(t, s, "SP-2"); !errors.As(err, &none) {
			t.Errorf("without a row of its name: %v", err)
		}
		for _, server := range []string{"öl-1", "SP-2"} {
			raw.Exec(t, insert, server)
		}
		astray(t, s, 2, 2)
		for _, server := range fleetOf(t, s).Servers {
			if server.Key > 3 && (!server.Astray || server.Agent == "" || server.State != enrollment.Accepted) {
				t.Errorf("availability is not told of %+v", server)
			}
		}
		before := read(t, s, "ÖL-1")
		var state *store.StateError
		if _, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, "ÖL-1"), Etag: before.Etag(), Actor: "op"}); !errors.As(err, &state) || !state.Astray {
			t.Errorf("accepting it again: %v", err)
		}
		after, err := relink(t, s, "ÖL-1")
		if err != nil || after.Server == nil || after.Server.Name != "öl-1" || after.State != enrollment.Accepted || after.DecidedBy != "op" {
			t.Fatalf("%+v %v", after, err)
		}
		var stale *store.StaleEtagError
		if _, _, err := s.Relink(t.Context(), name(t, "ÖL-1"), before.Etag(), "other"); !errors.As(err, &stale) {
			t.Errorf("a second operator is not told: %v", err)
		}
		astray(t, s, 1, 1)
		if notes(t, raw) != 0 {
			t.Error("rows that are gone are remembered")
		}
	})
}

// After a whole table was imported, keys may be those of other servers: every agent is relinked, whatever holds its server's key.
func TestI18_AnImportThatMixesTheKeysIsMended(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		const agents = 40
		for i := range agents {
			insertServer(t, raw, int64(i+1), fmt.Sprintf("SP-%d", i), true)
			record(t, s, beat(t, fmt.Sprintf("sp-%d", i), "b", 1, at(i+1)))
			accept(t, s, fmt.Sprintf("sp-%d", i), false)
		}
		raw.Run(t, `DELETE FROM TblServer`)
		for i := range agents { // in another order, and one has no row any more
			if i != 7 {
				insertServer(t, raw, int64((i*3)%agents+1), fmt.Sprintf("SP-%d", i), true)
			}
		}
		moved := int64(0)
		for i := range agents {
			if (i*3)%agents != i && i != 7 {
				moved++
			}
		}
		astray(t, s, moved+1, moved)
		strays, err := s.Strays(t.Context(), 1000, 0)
		if err != nil || int64(len(strays)) != moved+1 {
			t.Fatal(strays, err)
		}
		for _, stray := range strays {
			if _, _, err := s.RelinkStray(t.Context(), stray.Name, "op"); (err == nil) == (stray.Name.Key == "sp-7") {
				t.Errorf("%s: %v", stray.Name.Spelling, err)
			}
		}
		astray(t, s, 1, 0)
		for i := range agents {
			if agent := read(t, s, fmt.Sprintf("sp-%d", i)); i != 7 && (agent.Server == nil || agent.Server.Name != fmt.Sprintf("SP-%d", i)) {
				t.Errorf("%s is linked to %+v", agent.Name, agent.Server)
			}
		}
	})
}

// A server that was decommissioned leaves an agent that was rejected, and a link to a row that is gone: nothing is to be mended.
func TestI18_ARejectedAgentWithoutARowOfItsNameIsNotAstray(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		insert := `INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES ('%s', 'https://x', 'BenefitManager', 1, 1)`
		for i, agent := range []string{"SP-1", "SP-2"} {
			raw.Run(t, fmt.Sprintf(insert, agent))
			record(t, s, beat(t, agent, "b", 1, at(i+1)))
			accept(t, s, agent, false)
		}
		if _, err := s.Reject(t.Context(), name(t, "SP-1"), read(t, s, "SP-1").Etag(), "op"); err != nil {
			t.Fatal(err)
		}
		raw.Run(t, `DELETE FROM TblServer`)
		listed := func(want ...string) {
			t.Helper()
			strays, err := s.Strays(t.Context(), 10, 0)
			if err != nil || len(strays) != len(want) {
				t.Errorf("relinked would be %v %v, want %v", strays, err, want)
			}
			for choice, want := range map[int]int{0: 2, 1: 2 - len(want), 2: len(want)} {
				agents, _, total, err := s.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Astray: choice, Sort: "name"}, 10, nil)
				if err != nil || len(agents) != want || total != want {
					t.Errorf("list %d: %d of %d (%v), want %d", choice, len(agents), total, err, want)
				}
			}
		}
		astray(t, s, 1, 0)
		listed("SP-2")
		raw.Run(t, fmt.Sprintf(insert, "sp-1")) // the row was made again: the agent's link would mislead an operator who accepts it
		astray(t, s, 2, 1)
		listed("SP-1", "SP-2")
	})
}

// A second row of an agent's name is no reason to relink the agent, whose link is good; two rows can't be told apart.
func TestI18_AServersDoubleDoesNotMakeItsAgentAstray(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		insert := `INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES ('%s', 'https://x', 'BenefitManager', 1, 1)`
		raw.Run(t, fmt.Sprintf(insert, "SP-1"))
		record(t, s, beat(t, "SP-1", "b", 1, at(1)))
		accept(t, s, "SP-1", false)
		raw.Run(t, fmt.Sprintf(insert, "sp-1 "))
		astray(t, s, 0, 0)
		for _, server := range fleetOf(t, s).Servers {
			if server.Astray {
				t.Errorf("the agent is linked well, and availability is told: %+v", server)
			}
		}
		doubles := strings.Fields(raw.Text(t, `SELECT Name FROM TblServer ORDER BY ServerKey`))
		raw.Run(t, `DELETE FROM TblServer`) // a key that is an identity cannot be updated
		for i, name := range []string{doubles[0], doubles[1] + " "} {
			insertServer(t, raw, int64(i+11), name, true)
		}
		astray(t, s, 1, 0)
		told := 0
		for _, server := range fleetOf(t, s).Servers {
			if server.Astray {
				told++
			}
		}
		if told != 2 {
			t.Errorf("both rows are of its name, %d are told", told)
		}
		var several *store.ServerAmbiguousError
		if _, err := relink(t, s, "SP-1"); !errors.As(err, &several) {
			t.Error(err)
		}
	})
}

// Who loses its link to the agent of the row's name is named.
func TestI18_TheAgentWhoseLinkIsSetAsideIsNamed(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s, raw := openBeside(t, engine)
		swapped(t, s, raw)
		held := read(t, s, "SP-2").Etag()
		agent, aside, err := s.Relink(t.Context(), name(t, "SP-1"), read(t, s, "SP-1").Etag(), "op")
		if err != nil || agent.Server == nil || agent.Server.Name != "SP-1" {
			t.Fatalf("%+v %v", agent, err)
		}
		if aside.Name.Spelling != "SP-2" || aside.Before != held || aside.After != read(t, s, "SP-2").Etag() {
			t.Errorf("set aside: %+v", aside)
		}
		astray(t, s, 1, 1)
		if _, aside, err := s.Relink(t.Context(), name(t, "SP-2"), aside.After, "op"); err != nil || aside.Name.Spelling != "" {
			t.Errorf("the other one sets aside %+v, %v", aside, err)
		}
	})
}

// swapped has two agents that are linked to each other's rows.
func swapped(t *testing.T, s *store.Store, raw *sqldbtest.Database) {
	t.Helper()
	for i, agent := range []string{"SP-1", "SP-2"} {
		raw.Run(t, fmt.Sprintf(`INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES ('%s', 'https://x', 'BenefitManager', 1, 1)`, agent))
		record(t, s, beat(t, agent, "b", 1, at(i+1)))
		accept(t, s, agent, false)
	}
	raw.Run(t, `UPDATE TblServer SET Name = CASE Name WHEN 'SP-1' THEN 'SP-2' ELSE 'SP-1' END`)
}
