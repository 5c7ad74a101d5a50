package partition

import (
	"slices"
	"testing"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

func namesOf(list *agentv1.FailoverList) []string {
	var names []string
	for _, s := range list.GetServers() {
		names = append(names, s.GetName())
	}
	return names
}

func TestI16_ListIsInTheOrderOfTheDirectory(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c", "d")
		w.enlist(40)
		r := w.replica()
		if r.List(w.agent("BM-1"), "") != nil {
			t.Fatal("an empty list, before there is one")
		}
		r.settle()
		directory, err := w.self.Directory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"BM-1", "BM-2", "BM-3"} {
			agent := w.agent(name)
			list := r.List(agent, "other")
			if list.GetEtag() != directory.Etag(agent)+"-60000" || list.GetLongestPause().AsDuration() != time.Minute || len(list.GetServers()) != 4 {
				t.Fatal(list)
			}
			for i, id := range directory.List(agent) {
				s, got := w.number(`SELECT ControlServerKey FROM TblControlServer WHERE Name = '`+list.GetServers()[i].GetName()+`'`), list.GetServers()[i]
				if int64(s) != id || got.GetGrpcEndpoint() != got.GetName()+":8443" || got.GetRestEndpoint() != "https://"+got.GetName() {
					t.Errorf("%s: place %d is %v, want %d", name, i, got, id)
				}
			}
			if again := r.List(agent, list.GetEtag()); again != nil {
				t.Errorf("the agent has it already: %v", again)
			}
			if int64(w.number(`SELECT PrimaryControlServerKey FROM TblAgent WHERE Name = '`+name+`'`)) != directory.List(agent)[0] {
				t.Errorf("%s: its primary is not the first", name)
			}
		}
	})
}

func TestI16_ANewAgentGetsTheOrderOfTheHash(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c", "d")
		r := w.replica()
		r.settle()
		w.enlist(1)
		agent := w.agent("BM-1")
		list := r.List(agent, "")
		if names := slices.Sorted(slices.Values(namesOf(list))); agent.Primary != 0 || !slices.Equal(names, []string{"a", "b", "c", "d"}) {
			t.Fatal(list)
		}
		// A primary that is gone, or that this replica has not heard of yet, is left out.
		if other := r.List(cloud.Agent{Key: 1, Hash: agent.Hash, Primary: 99}, list.GetEtag()); !slices.Equal(namesOf(other), namesOf(list)) {
			t.Fatal(other)
		}
	})
}

func BenchmarkList(b *testing.B) {
	w := newWorld(b, sqldbtest.SQLite)
	for i := range 50 {
		w.join(string(rune('A'+i%26)) + string(rune('a'+i/26)))
	}
	w.enlist(1)
	r := w.replica()
	r.settle()
	agent := w.agent("BM-1")
	etag := r.List(agent, "").GetEtag()
	b.Run("changed", func(b *testing.B) {
		for b.Loop() {
			r.List(agent, "")
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			if r.List(agent, etag) != nil {
				b.Fatal("sent again")
			}
		}
	})
}

func TestAnotherPauseIsAnotherList(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(2)
		r := w.replica()
		r.settle()
		agent := w.agent("BM-1")
		list := r.List(agent, "")
		r.returns.LongestPause = 20 * time.Second
		next := r.List(agent, list.GetEtag())
		if next.GetLongestPause().AsDuration() != 20*time.Second || len(next.GetServers()) != 2 {
			t.Fatalf("the agent is not told of the new pause: %v", next)
		}
		if again := r.List(agent, next.GetEtag()); again != nil {
			t.Errorf("it was told: %v", again)
		}
	})
}
