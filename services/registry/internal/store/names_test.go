package store_test

import (
	"encoding/json"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// A name that is not given any more, but has a row from before, goes on: its heartbeats count, and operators decide about it.
func TestI7_AnAgentOfANameThatIsNotGivenAnyMoreGoesOn(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		const text = "SP\u200b-1"
		old := name(t, text)
		batch, err := json.Marshal([][]any{{old.Key, old.Spelling, 1, nil}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(t.Context(), "insert_contacts", map[string]any{"batch": string(batch), "now": sqldb.Text(at(0))}); err != nil {
			t.Fatal(err)
		}
		known, fresh := beat(t, text, "a", 1, at(1)), beat(t, "SP\u200b-2", "a", 1, at(1))
		for _, b := range []*enrollment.Heartbeat{&known, &fresh} {
			b.OnlyKnown = &enrollment.InvalidError{Field: "heartbeat.name", Rule: "must not hold U+200B"}
		}
		if got := record(t, s, known, fresh); got[0] != enrollment.Created && got[0] != enrollment.Updated || got[1] != enrollment.NotNew {
			t.Fatal(got)
		}
		if agent := read(t, s, text); !agent.LastBusAt.Equal(at(1)) {
			t.Fatalf("%+v", agent)
		}
		if rejected, err := s.Reject(t.Context(), old, read(t, s, text).Etag(), "op"); err != nil || rejected.State != enrollment.Rejected {
			t.Fatal(rejected, err)
		}
	})
}
