package sweep

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

func (w *world) expect(online, rows int, when string) {
	w.t.Helper()
	if got := w.online(); got != online {
		w.t.Fatalf("%s: %d servers online, expected %d", when, got, online)
	}
	if got := w.logRows(); got != rows {
		w.t.Fatalf("%s: %d rows in the offline log, expected %d", when, got, rows)
	}
}

func TestI9_OneRowForEachTransition(t *testing.T) {
	w := newWorld(t, 3)
	job := w.replica("a")
	for range 5 { // 75 s
		w.pass(job, 2)
		w.expect(3, 0, "younger than the maximum age")
	}
	w.pass(job, 2)
	w.expect(2, 1, "silent for the maximum age")
	for range 3 {
		w.pass(job, 2)
	}
	w.expect(2, 1, "still silent")
	w.pass(job)
	w.expect(3, 1, "one heartbeat brings it back, without a row")
	for labels, want := range map[[2]string]float64{{"offline", "heartbeat silent"}: 1, {"online", "heartbeat fresh"}: 1, {"offline", "maintenance"}: 0} {
		if got := testutil.ToFloat64(job.Metrics.transitions.WithLabelValues(labels[:]...)); got != want {
			t.Errorf("%v transitions %v, expected %v", got, labels, want)
		}
	}
	if swept, at := testutil.ToFloat64(job.Metrics.sweeps.WithLabelValues("done")), testutil.ToFloat64(job.Metrics.sweptAt); swept != 10 || at == 0 {
		t.Errorf("%v sweeps, the last at %v", swept, at)
	}
}

// The whole control plane's ears are gone for ten minutes, and nobody pays for it.
func TestI11_TenMinutesWithoutIngest(t *testing.T) {
	w := newWorld(t, 200)
	job := w.replica("a")
	w.pass(job)
	w.registry.stop()
	for range 40 {
		w.pass(job)
		w.expect(200, 0, "while the ingest is down")
	}
	if w.count("SELECT COUNT(*) FROM TblAvailabilityPath WHERE FrozenSince IS NOT NULL AND Blind <> ''") == 0 {
		t.Fatal("nothing says that the path is frozen")
	}
	w.registry.start()
	for i := range 6 { // 200 never comes back
		w.expect(200, 0, "the ingest has returned less than a maximum age ago")
		if at := w.registry.now.Sub(w.registry.healthySince); at >= limits.MaxAge {
			t.Fatalf("sweep %d is at %v", i, at)
		}
		w.pass(job, 200)
	}
	w.pass(job, 200)
	w.expect(199, 1, "a full maximum age of proof")
}

// A filter that lets nothing through leaves the services healthy: canaries come back, and nobody is heard.
func TestI11_TopicEmptiedByAFilter(t *testing.T) {
	w := newWorld(t, 20)
	job := w.replica("a")
	for range 60 {
		w.registry.now = w.registry.now.Add(limits.SweepInterval)
		w.registry.reportedAt = w.registry.now
		w.step(job)
		w.expect(20, 0, "healthy services that hear nobody")
	}
}

func TestI11_BacklogFreezes(t *testing.T) {
	w := newWorld(t, 4)
	job := w.replica("a")
	w.registry.backlog = limits.MaxAge
	for range 20 {
		w.pass(job, 1)
		w.expect(4, 0, "heartbeats wait in the backlog")
	}
	w.registry.backlog = 0
	w.pass(job, 1)
	w.expect(3, 1, "none waits")
}

// The brake's count is kept in the database: it goes on with another holder.
func TestI11_TheBrakeSurvivesItsHolder(t *testing.T) {
	w := newWorld(t, 10)
	silent := []int64{1, 2, 3, 4, 5, 6}
	jobs := []*Job{w.replica("a"), w.replica("b")}
	tripped, sweeps := 0, 0
	for w.online() == 10 {
		if sweeps++; sweeps > 30 {
			t.Fatal("held for ever")
		}
		w.expire()
		w.pass(jobs[sweeps%2], silent...)
		if tripped == 0 && w.count("SELECT COUNT(*) FROM TblAvailabilityPath WHERE BrakeSince IS NOT NULL") == 1 {
			tripped = sweeps
		}
	}
	if tripped == 0 || sweeps-tripped != 3 {
		t.Errorf("braked in sweep %d, applied in sweep %d", tripped, sweeps)
	}
	w.expect(4, 6, "applied once")
}

func TestI11_AnOperatorAppliesTheBrake(t *testing.T) {
	w := newWorld(t, 10)
	job := w.replica("a")
	silent := []int64{1, 2, 3, 4, 5, 6}
	for range 4 {
		w.pass(job, silent...)
	}
	w.registry.start() // the ingest was restarted: the brake's proof begins anew, after a full maximum age
	for range 6 {
		w.pass(job, silent...)
	}
	w.expect(10, 0, "braked")
	opened := w.open()
	overview, err := opened.Overview(t.Context())
	if err != nil || !overview.Paths[verdict.Bus].Braked || overview.Paths[verdict.Bus].Held != 6 {
		t.Fatalf("%+v, %v", overview.Paths[verdict.Bus], err)
	}
	if _, err := opened.OrderBrake(t.Context(), verdict.Bus, verdict.Apply, overview.Paths[verdict.Bus].Etag(), "operator"); err != nil {
		t.Fatal(err)
	}
	if !job.acted(t.Context()) {
		t.Error("the holder does not notice the order")
	}
	w.pass(job, silent...)
	w.expect(4, 6, "applied")
	w.pass(job, silent...)
	if overview, err = opened.Overview(t.Context()); err != nil || overview.Paths[verdict.Bus].State.Brake.Order != verdict.NoOrder {
		t.Errorf("the order outlives its mass: %+v, %v", overview.Paths[verdict.Bus], err)
	}
}

// A holder that stands still between deciding and writing, for longer than its lease, writes nothing.
func TestI15_APausedHolderIsRefused(t *testing.T) {
	w := newWorld(t, 3)
	first, second := w.replica("a"), w.replica("b")
	w.pass(first)
	pausing := first.Store.(*database)
	pausing.before = func() error { // the other takes over meanwhile
		w.expire()
		w.step(second)
		w.expect(2, 1, "the other's sweep")
		w.exec("UPDATE TblServer SET Online = 1") // so that the paused one would find something to write
		return nil
	}
	w.registry.now = w.registry.now.Add(limits.MaxAge)
	w.beat(2)
	if err := first.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(3, 1, "the paused holder wrote after all")
	if first.term != nil || second.term == nil {
		t.Error("both think they hold the lease, or none does")
	}
	pausing.before = nil
	w.step(first)
	if first.term != nil {
		t.Error("the lease was taken although another holds it")
	}
}

func TestI15_TheLeaseGoesToAnother(t *testing.T) {
	w := newWorld(t, 1)
	first, second := w.replica("a"), w.replica("b")
	w.step(first)
	w.step(second)
	if first.term == nil || second.term != nil {
		t.Fatal("the first takes the lease, the second waits")
	}
	w.expire()
	w.step(second)
	w.step(first)
	if first.term != nil || second.term == nil {
		t.Fatal("a lease that ran out goes to whoever comes first")
	}
	second.resign(context.Background())
	w.step(first)
	if first.term == nil {
		t.Fatal("a lease that was given back is free at once")
	}
}

// The database fails before the write, or after it with the answer lost; each transition still has one row.
func TestI9_TheDatabaseFailsInMidSweep(t *testing.T) {
	for name, arm := range map[string]func(*database, func() error){
		"before the write": func(f *database, fail func() error) { f.before = fail },
		"after the write":  func(f *database, fail func() error) { f.after = fail },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			job := w.replica("a")
			w.pass(job)
			failing := job.Store.(*database)
			arm(failing, func() error { return errDatabase })
			w.registry.now = w.registry.now.Add(limits.MaxAge)
			w.beat(2)
			if err := job.Step(t.Context()); !errors.Is(err, errDatabase) {
				t.Fatal(err)
			}
			failing.before, failing.after = nil, nil
			for range 3 {
				w.pass(job, 2)
			}
			w.expect(2, 1, "back again")
			if w.count("SELECT COUNT(*) FROM TblAvailabilityStatus WHERE SecondWriterAt IS NOT NULL") != 0 {
				t.Error("the service takes itself for another writer")
			}
		})
	}
}

// The database turns read-only in the middle of a sweep, and back: meanwhile nothing changes, and afterwards each transition has one row.
func TestI9_TheDatabaseIsReadOnlyForAWhile(t *testing.T) {
	w := newWorld(t, 3)
	job := w.replica("a")
	w.pass(job)
	failing := job.Store.(*database)
	failing.before = func() error {
		w.exec("CREATE TRIGGER ReadOnly BEFORE UPDATE ON TblJobLease BEGIN SELECT RAISE(ABORT, 'read-only'); END")
		failing.before = nil
		return nil
	}
	w.registry.now = w.registry.now.Add(limits.MaxAge)
	w.beat(2)
	for range 3 {
		if err := job.Step(t.Context()); err == nil {
			t.Fatal("it writes")
		}
		w.expect(3, 0, "read-only")
	}
	if got := testutil.ToFloat64(job.Metrics.sweeps.WithLabelValues("database")); got != 3 {
		t.Errorf("%v sweeps failed for the database, expected 3", got)
	}
	w.exec("DROP TRIGGER ReadOnly")
	for range 3 {
		w.pass(job, 2)
	}
	w.expect(2, 1, "back again")
}

// A holder that cannot ask the database gives up by its own clock, and shows nothing that is another's to show by then.
func TestALeaseThatMustHaveRunOutIsGivenUp(t *testing.T) {
	w := newWorld(t, 3)
	job := w.replica("a")
	w.registry.backlog = limits.MaxAge
	w.pass(job, 2)
	shown := func() [3]int {
		return [3]int{int(testutil.ToFloat64(job.Metrics.held)), testutil.CollectAndCount(job.Metrics.frozenSince), testutil.CollectAndCount(job.Metrics.servers)}
	}
	if got := shown(); got != [3]int{1, 1, 1} {
		t.Fatal(got)
	}
	w.exec("ALTER TABLE TblJobLease RENAME TO Gone")
	if err := job.Step(t.Context()); err == nil || shown() != [3]int{1, 1, 1} {
		t.Fatalf("the lease lasts, and the database may come back: %v, %v", err, shown())
	}
	job.term.until = time.Now()
	if err := job.Step(t.Context()); err == nil || job.term != nil || shown() != [3]int{} {
		t.Fatalf("the lease has run out: %v, %v", err, shown())
	}
	w.exec("ALTER TABLE Gone RENAME TO TblJobLease")
	w.expire()
	w.step(job)
	if got := shown(); got != [3]int{1, 1, 1} {
		t.Fatal(got)
	}
}

// Somebody else flips Active at every point of a sweep: before it, between reading and writing, and after.
func TestI10_ActivePlaysNoPart(t *testing.T) {
	w := newWorld(t, 4)
	job := w.replica("a")
	active := 0
	flip := func() error {
		if got := w.count("SELECT COUNT(*) FROM TblServer WHERE Active = ?", 1-active); got != 4 {
			t.Fatalf("%d rows have the Active they were given", got)
		}
		w.exec("UPDATE TblServer SET Active = ?", active)
		active = 1 - active
		return nil
	}
	around := job.Store.(*database)
	around.read, around.before, around.after = flip, flip, flip
	for range 12 {
		_ = flip()
		w.pass(job, 3)
	}
	_ = flip()
	w.expect(3, 1, "whatever Active was")
}

func TestI9_MaintenanceIsATransition(t *testing.T) {
	w := newWorld(t, 2)
	job, opened := w.replica("a"), w.open()
	w.pass(job)
	turn := func(on bool) {
		server, _, _, err := opened.Maintenance(t.Context(), "BM-0s")
		if err == nil {
			_, _, _, err = opened.SetSwitch(t.Context(), "BM-0s", server.Switch.Etag(), on, "disks", store.End{}, "operator")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	turn(true)
	w.pass(job)
	w.expect(1, 1, "in maintenance")
	w.pass(job)
	w.expect(1, 1, "still in maintenance")
	turn(false)
	w.registry.err = errors.New("unreachable")
	w.pass(job)
	w.expect(1, 1, "without the registry nobody knows that it is well")
	turn(true)
	w.registry.err = nil
	w.pass(job)
	turn(false)
	w.pass(job)
	w.expect(2, 1, "out of maintenance")
	w.registry.err = errors.New("unreachable")
	turn(true)
	w.pass(job)
	w.expect(1, 2, "maintenance needs only the database")
}

func TestI9_AWindowIsATransition(t *testing.T) {
	w := newWorld(t, 1)
	job, opened := w.replica("a"), w.open()
	// By hand, since the store takes none that the database's own clock has left behind.
	w.exec(`INSERT INTO TblMaintenanceWindow (WindowKey, ServerKey, StartAt, EndAt, Reason, CreatedBy, CreatedAt)
		VALUES (1, 1, '2026-03-01T11:00:00.000Z', '2026-03-02T12:00:00.000Z', 'disks', 'operator', '2026-03-01T11:00:00.000Z')`)
	w.pass(job)
	w.expect(0, 1, "in the window")
	if err := opened.DeleteWindow(t.Context(), "BM-0s", 1); err != nil {
		t.Fatal(err)
	}
	w.pass(job)
	w.expect(1, 1, "the window is gone")
}

// What is shown of maintenance follows its end and its reason, though the server stays offline all along.
func TestMaintenanceIsToldAsItIsNow(t *testing.T) {
	w := newWorld(t, 1)
	job, opened := w.replica("a"), w.open()
	w.exec(`INSERT INTO TblMaintenanceWindow (WindowKey, ServerKey, StartAt, EndAt, Reason, CreatedBy, CreatedAt) VALUES
		(1, 1, '2026-03-01T11:00:00.000Z', '2026-03-02T13:00:00.000Z', 'disks', 'operator', '2026-03-01T11:00:00.000Z'),
		(2, 1, '2026-03-01T11:00:00.000Z', '2026-03-02T12:00:00.000Z', 'fans', 'operator', '2026-03-01T11:00:00.000Z')`)
	told := func(words string) {
		t.Helper()
		w.pass(job)
		if server, err := opened.StatusOf(t.Context(), "BM-0s"); err != nil || !strings.HasPrefix(server.Detail, words+"; its agent is heard over the bus path") {
			t.Errorf("%q, %v", server.Detail, err)
		}
	}
	turn := func(etag string, on bool, reason string, endAt time.Time) {
		if _, _, _, err := opened.SetSwitch(t.Context(), "BM-0s", etag, on, reason, store.End{At: endAt}, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	told("in a maintenance window until 2026-03-02T13:00:00Z: disks")
	turn("0", true, "power", time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	told("in maintenance until 2099-01-01T00:00:00Z by ann: power")
	turn("1", true, strings.Repeat("é", 1024), time.Time{})
	told("in maintenance by ann: " + strings.Repeat("é", 400))
	job.Store.(*database).before = func() error { t.Error("the same is written again"); return nil }
	w.pass(job)
	job.Store.(*database).before = nil
	turn("2", false, "", time.Time{})
	told("in a maintenance window until 2026-03-02T13:00:00Z: disks")
}

// Also while the registry does not answer: maintenance needs only the database.
func TestMaintenanceIsToldAsItIsNowWithoutTheRegistry(t *testing.T) {
	w := newWorld(t, 1)
	job, opened := w.replica("a"), w.open()
	turn := func(etag, reason string) {
		if _, _, _, err := opened.SetSwitch(t.Context(), "BM-0s", etag, true, reason, store.End{}, "ann"); err != nil {
			t.Fatal(err)
		}
		w.pass(job)
	}
	turn("0", "power")
	w.registry.err = errors.New("unreachable")
	turn("1", "disks")
	if server, err := opened.StatusOf(t.Context(), "BM-0s"); err != nil || !strings.HasPrefix(server.Detail, "in maintenance by ann: disks") {
		t.Errorf("%q, %v", server.Detail, err)
	}
}

// anInstant is in a text.
var anInstant = regexp.MustCompile(`\d{4}-\d\d-\d\d|\d\d:\d\d`)

// A status is stored when it changes, and shown for hours.
func TestStoredWordsHoldNoInstantThatGrowsOld(t *testing.T) {
	seen := verdict.Verdict{HeardAt: epoch, ProbeError: "refused"}
	for _, reason := range []verdict.Reason{
		verdict.HeartbeatFresh, verdict.HeartbeatSilent, verdict.NeverHeard, verdict.ProbeSucceeded, verdict.ProbeFailed, verdict.ProbeUndecided,
		verdict.AgentRemoved, verdict.AgentRejected, verdict.NeverAccepted, verdict.RegistryUnreachable,
	} {
		for _, held := range []verdict.Holding{verdict.NotHeld, verdict.Frozen, verdict.Braked} {
			seen.Reason = reason
			if text := detail(verdict.Status{Verdict: seen, Held: held, Since: epoch}, ""); text == "" || anInstant.MatchString(text) {
				t.Errorf("%s: %q", reason, text)
			}
		}
	}
}

// While it proves itself after a start, a path says until when; once it did, it says nothing, and neither does one that is deaf.
func TestAPathThatProvesItselfSaysUntilWhen(t *testing.T) {
	w := newWorld(t, 3)
	job, opened := w.replica("a"), w.open()
	until := func() time.Time {
		t.Helper()
		overview, err := opened.Overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return overview.Paths[verdict.Bus].StartingUntil
	}
	w.registry.stop()
	w.pass(job)
	w.registry.healthySince = time.Time{}
	w.pass(job)
	if got := until(); !got.IsZero() {
		t.Errorf("deaf, and starting until %s", got)
	}
	w.registry.start()
	w.pass(job)
	if got, want := until(), w.registry.healthySince.Add(limits.MaxAge); !got.Equal(want) {
		t.Errorf("starting until %s, want %s", got, want)
	}
	job.Store.(*database).before = func() error { t.Error("the same is written again"); return nil }
	w.pass(job)
	job.Store.(*database).before = nil
	for range 6 {
		w.pass(job)
	}
	if got := until(); !got.IsZero() {
		t.Errorf("proven, and starting until %s", got)
	}
}

// A silent agent's last heartbeat may come late, from a backlog. What is shown is the newest.
func TestALateHeartbeatOfASilentAgentIsShown(t *testing.T) {
	w := newWorld(t, 3)
	job, opened := w.replica("a"), w.open()
	w.pass(job)
	for range 8 {
		w.pass(job, 1)
	}
	before, err := opened.StatusOf(t.Context(), "BM-0s")
	if err != nil || before.Status.Verdict.Reason != verdict.HeartbeatSilent {
		t.Fatalf("%+v, %v", before, err)
	}
	late := before.Status.Verdict.HeardAt.Add(time.Second)
	w.registry.servers[before.Key].LastBusHeartbeatAt = timestamppb.New(late)
	w.pass(job, 1)
	after, err := opened.StatusOf(t.Context(), "BM-0s")
	if err != nil || !after.Status.Verdict.HeardAt.Equal(late) || !after.Status.Since.Equal(before.Status.Since) {
		t.Errorf("heard at %s since %s, want %s since %s, %v", after.Status.Verdict.HeardAt, after.Status.Since, late, before.Status.Since, err)
	}
}

func TestI11_WithoutTheRegistryNothingIsConcluded(t *testing.T) {
	w := newWorld(t, 20)
	job := w.replica("a")
	w.pass(job)
	revision := w.count("SELECT MAX(Revision) FROM TblAvailabilityStatus")
	w.registry.err = errors.New("unreachable")
	for range 40 {
		w.pass(job)
	}
	w.expect(20, 0, "the registry is away")
	if got := w.count("SELECT MAX(Revision) FROM TblAvailabilityStatus"); got != revision {
		t.Errorf("the statuses were written anew: revision %d, then %d", revision, got)
	}
}

func TestObserveLeavesTheLegacyTablesAlone(t *testing.T) {
	w := newWorld(t, 4)
	job := w.replica("a")
	job.Own = false
	for range 10 {
		w.pass(job, 2)
	}
	w.expect(4, 0, "observed")
	if got := testutil.ToFloat64(job.Metrics.disagreements); got != 1 {
		t.Errorf("%v disagreements, expected 1", got)
	}
	w.exec("UPDATE TblServer SET Online = 0 WHERE ServerKey = 3")
	w.pass(job, 2)
	w.exec("UPDATE TblServer SET Online = 1 WHERE ServerKey = 3")
	if got := testutil.ToFloat64(job.Metrics.secondWriter); got != 0 {
		t.Errorf("who only observes counts %v changes of the one that writes", got)
	}
	disagreeing, _, err := w.open().Statuses(t.Context(), store.Filter{Held: -1, Maintenance: -1, Disagrees: 1}, 10, 0)
	if err != nil || len(disagreeing) != 1 || disagreeing[0].Key != 2 {
		t.Errorf("%+v, %v", disagreeing, err)
	}
}

func TestI9_AnotherWriterIsNoticed(t *testing.T) {
	w := newWorld(t, 4)
	job := w.replica("a")
	w.pass(job)
	w.exec("UPDATE TblServer SET Online = 0 WHERE ServerKey = 3")
	w.pass(job)
	w.expect(4, 0, "what is decided is written again")
	if w.count("SELECT COUNT(*) FROM TblAvailabilityStatus WHERE SecondWriterAt IS NOT NULL AND ServerKey = 3") != 1 {
		t.Error("the other writer is not shown")
	}
	w.pass(job)
	overview, err := w.open().Overview(t.Context())
	if err != nil || overview.SecondWriterAt.IsZero() {
		t.Errorf("%+v, %v", overview, err)
	}
	if got := testutil.ToFloat64(job.Metrics.secondWriter); got != 1 {
		t.Errorf("%v changes of another writer, expected 1", got)
	}
}

func TestAnUnchangedFleetWritesNothing(t *testing.T) {
	w := newWorld(t, 30)
	job := w.replica("a")
	w.pass(job, 7)
	job.Store.(*database).before = func() error { t.Error("something is written"); return nil }
	w.pass(job)
	w.pass(job)
}

func TestHalfAFleetIsNone(t *testing.T) {
	head := &registryv1.ReadFleetResponse{Part: &registryv1.ReadFleetResponse_Head{Head: &registryv1.FleetHead{}}}
	servers := &registryv1.ReadFleetResponse{Part: &registryv1.ReadFleetResponse_Servers{Servers: &registryv1.FleetServers{}}}
	for name, stream := range map[string]*answer{
		"nothing":    {},
		"no head":    {parts: []*registryv1.ReadFleetResponse{servers}},
		"broken off": {parts: []*registryv1.ReadFleetResponse{head, servers}, end: errors.New("broken off")},
		"no servers": {end: errors.New("refused")},
		"late head":  {parts: []*registryv1.ReadFleetResponse{servers, head}},
	} {
		if read, err := collect(stream, time.Minute); err == nil {
			t.Errorf("%s: %+v", name, read)
		}
	}
}

func TestHeardAtLeavesOutAPathThatWasLeft(t *testing.T) {
	old, now := epoch.Add(-time.Hour), epoch
	for name, c := range map[string]struct {
		bus, direct time.Time
		want        verdict.PerPath[time.Time]
	}{
		"bus only":     {bus: now, want: verdict.PerPath[time.Time]{now, {}}},
		"both":         {bus: now, direct: now.Add(-time.Minute), want: verdict.PerPath[time.Time]{now, now.Add(-time.Minute)}},
		"left direct":  {bus: now, direct: old, want: verdict.PerPath[time.Time]{now, {}}},
		"left bus":     {bus: old, direct: now, want: verdict.PerPath[time.Time]{{}, now}},
		"never":        {},
		"direct alone": {direct: old, want: verdict.PerPath[time.Time]{{}, old}},
	} {
		if got := heardAt(c.bus, c.direct, 15*time.Minute); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
