package partition

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func TestMain(m *testing.M) {
	// The connection opener of database/sql ends a moment after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

func TestChangesAreGatheredForTheDebounce(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		r := w.replica()
		w.enlist(30)
		w.join("a")
		r.after(0)
		w.join("b")
		r.after(debounce / 2)
		w.join("c")
		r.after(debounce/2 - 1)
		if w.epoch() != 0 {
			t.Fatal("too early")
		}
		r.after(1)
		if w.epoch() != 1 || w.number(`SELECT COUNT(DISTINCT PrimaryControlServerKey) FROM TblAgent`) != 3 {
			t.Fatalf("epoch %d", w.epoch())
		}
		for range 20 {
			r.after(debounce)
		}
		if w.epoch() != 1 || r.value("partitions_total", "committed") != 1 || r.value("partitions_total", "unchanged") != 0 || r.value("agents_moved_total", "placed") != 30 {
			t.Fatal("it goes on without a need")
		}
		if r.value("partition_epoch") != 1 || r.value("control_servers", "normal") != 3 || r.value("control_server_agents", "b") != 10 || r.value("control_server_agents", "") != 0 || r.value("partition_duration_seconds") != 1 {
			t.Error("the metrics show something else")
		}
	})
}

func TestI16_OneReplicaIsEnough(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b")
		one, two := w.replica(), w.replica()
		one.after(0)
		two.after(0)
		one.after(debounce)
		two.after(0)
		if w.epoch() != 1 || one.value("partitions_total", "committed") != 1 || two.value("partitions_total", "committed") != 0 {
			t.Fatalf("epoch %d", w.epoch())
		}
		agent := w.agent("BM-1")
		if a, b := one.List(agent, ""), two.List(agent, ""); a == nil || b == nil || a.String() != b.String() {
			t.Fatalf("one replica says %v, the other %v", a, b)
		}
		w.join("c")
		two.settle()
		one.after(0)
		if agent = w.agent("BM-1"); w.epoch() != 2 || len(one.List(agent, "").GetServers()) != 3 || one.List(agent, "").String() != two.List(agent, "").String() {
			t.Fatal("the directory that another replica committed is not taken over")
		}
	})
}

func TestI16_AFailedPartitionIsTriedAgain(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b")
		r := w.replica()
		w.raw.Refuse(t, "INSERT", "TblPartitionEvent")
		r.settle()
		if w.epoch() != 0 || r.value("partitions_total", "failed") != 1 || r.List(w.agent("BM-1"), "") != nil || r.log.count("agents could not be spread anew") != 1 {
			t.Fatal("something was taken for committed")
		}
		w.raw.Allow(t)
		r.after(time.Second)
		if w.epoch() != 0 {
			t.Fatal("what fails must not be tried every second")
		}
		r.after(debounce)
		if w.epoch() != 1 || r.List(w.agent("BM-1"), "") == nil {
			t.Fatal("it was forgotten")
		}
	})
}

func TestI16_NewAgentsRewriteNobodyElse(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(90)
		w.join("a", "b", "c")
		r := w.replica()
		r.settle()
		w.raw.Note(t, "TblAgent", "AgentKey")
		w.enlist(100)
		r.settle()
		if w.epoch() != 2 || w.number(`SELECT COUNT(*) FROM TblTestWritten`) != 10 || w.number(`SELECT COUNT(*) FROM TblTestWritten WHERE WrittenKey <= 90`) != 0 {
			t.Fatalf("%d rows", w.number(`SELECT COUNT(*) FROM TblTestWritten`))
		}
	})
}

func TestAgentsThatWereRemovedAreMissed(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(90)
		w.join("a", "b", "c")
		r := w.replica()
		r.settle()
		w.exec(`DELETE FROM TblAgent WHERE PrimaryControlServerKey = 1`)
		r.after(countInterval)
		r.after(debounce)
		if w.epoch() != 2 || w.number(`SELECT COUNT(*) FROM TblAgent WHERE PrimaryControlServerKey = 1`) != 20 {
			t.Fatalf("epoch %d", w.epoch())
		}
		w.exec(`DELETE FROM TblAgent WHERE AgentKey = (SELECT MIN(AgentKey) FROM TblAgent)`)
		for range 10 {
			r.after(countInterval)
		}
		if w.number(`SELECT Agents FROM TblCloudState`) != 59 || r.value("partitions_total", "committed")+r.value("partitions_total", "unchanged") != 3 {
			t.Fatal("counted once, and settled once")
		}
	})
}

func TestI16_SuspectAndBackWithinGraceIsNoPartition(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b", "c")
		r := w.replica()
		r.settle()
		etag := r.List(w.agent("BM-1"), "").GetEtag()
		w.silence("a", 290)
		r.settle()
		if r.value("control_servers", "suspect") != 1 {
			t.Fatal("not suspect")
		}
		w.join("a")
		r.settle()
		if w.epoch() != 1 || r.List(w.agent("BM-1"), etag) != nil {
			t.Fatal("the lists changed")
		}
		w.silence("a", 301)
		r.settle()
		if w.epoch() != 2 || len(r.List(w.agent("BM-1"), "").GetServers()) != 2 || r.value("control_servers", "evicted") != 1 {
			t.Fatal("not evicted")
		}
	})
}

func TestI16_AFreezeHoldsTheLists(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b", "c")
		r := w.replica()
		r.settle()
		w.silence("a", 3600)
		w.silence("b", 3600)
		for range 5 {
			r.settle()
		}
		if w.epoch() != 1 || r.value("evictions_frozen") != 1 || r.log.count("evictions are held") != 1 {
			t.Fatalf("epoch %d", w.epoch())
		}
		w.join("b")
		r.settle()
		if w.epoch() != 2 || r.value("evictions_frozen") != 0 || r.log.count("no longer held") != 1 {
			t.Fatal("it never ends")
		}
	})
}

func TestI16_TheLastOneStaysListed(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		r := w.replica()
		r.settle()
		if w.epoch() != 0 || r.log.count("cannot be spread") != 0 {
			t.Fatal("without any control server there is nothing to say")
		}
		w.join("a")
		r.settle()
		w.maintain("a", true)
		for range 5 {
			r.settle()
		}
		if list := r.List(w.agent("BM-1"), ""); w.epoch() != 1 || len(list.GetServers()) != 1 || r.log.count("cannot be spread") != 1 || r.value("control_servers", "draining") != 1 || r.value("partitions_total", "failed") != 0 {
			t.Fatalf("epoch %d: %v", w.epoch(), list)
		}
		w.join("b")
		r.settle()
		if list := r.List(w.agent("BM-1"), ""); w.epoch() != 2 || len(list.GetServers()) != 1 || list.GetServers()[0].GetName() != "b" {
			t.Fatalf("epoch %d: %v", w.epoch(), list)
		}
	})
}

func TestI16_WhileTheDatabaseFailsListsStay(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b")
		r := w.replica()
		r.settle()
		before := r.List(w.agent("BM-1"), "").String()
		agent := w.agent("BM-1")
		w.exec(`UPDATE TblCloudState SET DirectoryVersion = 2, Directory = 'nonsense'`)
		for range 5 {
			r.settle()
		}
		if r.List(agent, "").String() != before || r.value("cloud_look_failures_total") != 10 || r.log.count("lists stay as they are meanwhile") != 1 {
			t.Fatal(r.List(agent, ""))
		}
		w.exec(`UPDATE TblCloudState SET DirectoryVersion = 1`)
		r.settle()
		if r.log.count("works again") != 1 {
			t.Fatal("that it works again is not said")
		}
	})
}

func TestAGroupOfAgentsIsSpreadAnew(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.enlist(30)
		w.join("a", "b")
		r := w.replica()
		r.settle()
		var members []enrollment.Name
		for _, text := range []string{"east", "BM-1", "BM-2"} {
			name, err := enrollment.ParseName(text)
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, name)
		}
		if _, _, err := w.self.CreateGroup(t.Context(), store.GroupChange{Name: members[0], AddAgents: members[1:]}, "anna"); err != nil {
			t.Fatal(err)
		}
		r.settle() // a group without control servers moves nobody, and is settled
		r.settle()
		if w.epoch() != 1 || r.value("partitions_total", "unchanged") != 1 {
			t.Fatalf("epoch %d, unchanged %v", w.epoch(), r.value("partitions_total", "unchanged"))
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		r := w.replica()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

// A cloud in which nothing happens any more records no event, and forgets the old ones all the same.
func TestOldEventsAreForgottenWithoutANewOne(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		r := w.replica()
		w.enlist(3)
		w.join("a", "b")
		r.settle()
		w.exec(`UPDATE TblPartitionEvent SET At = ` + w.raw.Since(w.raw.Now(), 31*24*3600))
		r.after(forgetInterval - time.Minute)
		if w.number(`SELECT COUNT(*) FROM TblPartitionEvent`) != 1 {
			t.Fatal("it is looked for at every look")
		}
		r.after(time.Minute)
		if w.number(`SELECT COUNT(*) FROM TblPartitionEvent`) != 0 || w.epoch() != 1 {
			t.Fatal("it is still there")
		}
	})
}
