package agent

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// journalDisk is where a journal of a test lives: what was written and not synced is lost when the machine dies.
type journalDisk struct {
	room     int           // bytes that it takes; below 0: any number
	failSync string        // files whose path ends so can't be synced; empty: all can
	slow     time.Duration // that a sync takes
	files    []*stored
}

// stored is one file's content that is on disk. A rename does not change which file it is.
type stored struct {
	file   os.FileInfo
	synced int64 // bytes
}

func (d *journalDisk) takesAll() bool { return d.room < 0 && d.failSync == "" }

func (d *journalDisk) open(path string, flag int) (file, error) {
	f, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.(*os.File).Stat()
	if err != nil {
		return nil, err
	}
	s := d.find(info)
	if s == nil {
		s = &stored{file: info, synced: info.Size()}
		d.files = append(d.files, s)
	}
	s.synced = min(s.synced, info.Size())
	return &diskFile{f.(*os.File), d, s}, nil
}

func (d *journalDisk) find(info os.FileInfo) *stored {
	for _, s := range d.files {
		if os.SameFile(s.file, info) {
			return s
		}
	}
	return nil
}

// lose takes from a file what was not synced.
func (d *journalDisk) lose(path string) {
	if info, err := os.Stat(path); err == nil {
		if s := d.find(info); s != nil && s.synced < info.Size() {
			_ = os.Truncate(path, s.synced)
		}
	}
}

type diskFile struct {
	*os.File
	disk   *journalDisk
	stored *stored
}

// Write writes what there is room for.
func (f *diskFile) Write(b []byte) (int, error) {
	if f.disk.room < 0 {
		return f.File.Write(b)
	}
	n := min(len(b), f.disk.room)
	f.disk.room -= n
	n, err := f.File.Write(b[:n])
	if err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

// Sync does without the machine's own, which would only take its time.
func (f *diskFile) Sync() error {
	time.Sleep(f.disk.slow)
	if end := f.disk.failSync; end != "" && strings.HasSuffix(f.Name(), end) {
		return syscall.EIO
	}
	info, err := f.Stat()
	if err == nil {
		f.stored.synced = info.Size()
	}
	return err
}

func journalConfig(path string) Config {
	return Config{Name: "BM-1", JournalPath: path}.withDefaults()
}

// mortal is a journal on a machine that may die.
type mortal struct {
	*durable
	disk *journalDisk
}

func openOn(t *testing.T, path string, d *journalDisk) *mortal {
	t.Helper()
	j, err := openDurable(journalConfig(path), d.open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() })
	return &mortal{j, d}
}

// kill ends the process and its machine: nothing more is written, and what was not synced is lost.
func (j *mortal) kill() {
	_ = j.close()
	j.disk.lose(j.path)
	j.disk.lose(j.path + ".new")
}

// life is one process of an agent: an executor on a machine and a journal.
func life(t *testing.T, m *machine, path string) *executor {
	t.Helper()
	cfg := journalConfig(path)
	cfg.Host = m
	e := newExecutor(cfg, openOn(t, path, &journalDisk{room: -1}), &counters{})
	t.Cleanup(e.stopWork)
	return e
}

func (e *executor) kill() { e.journal.(*mortal).kill() }

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "journal") }

func TestI3_ACommandBegunBeforeACrashIsNotRunAgain(t *testing.T) {
	path, m := newPath(t), quick()
	cmd := command(startService(stoppedService))
	before := life(t, m, path)
	before.begin(cmd, now()) // and whether its message was settled, and how far it came, is not known
	before.kill()
	e := life(t, m, path)
	expect(t, e.do(t.Context(), cmd, time.Now()), refused, alreadyBegun)
	again := command(startService(stoppedService), id(strings.ToUpper(cmd.GetCommandId())), budget(time.Hour))
	expect(t, e.do(t.Context(), again, time.Now()), refused, alreadyBegun)
	expect(t, e.do(t.Context(), command(startService("Spooler"), id(cmd.GetCommandId())), time.Now()), refused, invalid)
	expect(t, e.do(t.Context(), command(id(cmd.GetCommandId())), time.Now()), refused, invalid)
	if got := e.lookup(cmd.GetCommandId()); got.GetState() != agentv1.CommandState_COMMAND_STATE_BEGUN || got.GetRunning() || got.GetBegunAt() == nil {
		t.Errorf("it is known as %v", got)
	}
	if m.starts.Load()+m.reads.Load() != 0 {
		t.Error("it ran")
	}
}

func TestI3_AnOutcomeIsAnsweredAfterARestart(t *testing.T) {
	path, m := newPath(t), quick()
	cmd := command(startService(stoppedService))
	e := life(t, m, path)
	first := e.do(t.Context(), cmd, time.Now())
	for range 3 {
		e.kill()
		e = life(t, m, path)
		if got := e.do(t.Context(), cmd, time.Now()); !proto.Equal(got, first) || len(got.GetChanges().GetChanges()) != 1 {
			t.Fatalf("answered %v, first %v", got, first)
		}
		if got := e.lookup(cmd.GetCommandId()); got.GetState() != agentv1.CommandState_COMMAND_STATE_FINISHED || !proto.Equal(got.GetResult(), first) {
			t.Errorf("it is known as %v", got)
		}
	}
	if m.starts.Load() != 1 {
		t.Errorf("it ran %d times", m.starts.Load())
	}
}

func TestI3_AnAbandonedCommandMayComeAgain(t *testing.T) {
	path, m := newPath(t), quick()
	cmd := command(startService(stoppedService))
	e := life(t, m, path)
	e.abandon(e.begin(cmd, now())) // its message could not be settled, and is delivered to the next process
	if got := e.lookup(cmd.GetCommandId()); got.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
		t.Errorf("it is known as %v", got)
	}
	e.kill()
	e = life(t, m, path)
	expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
	expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
	if m.starts.Load() != 1 {
		t.Errorf("it ran %d times", m.starts.Load())
	}
}

func TestI4_AFailedWriteIsNotTriedAgainAfterARestart(t *testing.T) {
	path, m := newPath(t), quick()
	m.Fail(stoppedService, errors.New("access denied"))
	cmd := command(startService(stoppedService))
	e := life(t, m, path)
	expect(t, e.do(t.Context(), cmd, time.Now()), failed, noReason)
	e.kill()
	m.Fail(stoppedService, nil)
	e = life(t, m, path)
	expect(t, e.do(t.Context(), cmd, time.Now()), failed, noReason)
	if m.starts.Load() != 1 {
		t.Errorf("it was tried %d times", m.starts.Load())
	}
}

func TestI5_ACommandThatComesAgainAfterACrashAndItsBudgetIsNotStarted(t *testing.T) {
	path, m := newPath(t), quick()
	e := life(t, m, path)
	abandoned, begun := command(startService(stoppedService)), command(startService(stoppedService))
	e.abandon(e.begin(abandoned, now()))
	e.begin(begun, now())
	e.kill()
	e = life(t, m, path)
	long := time.Now().Add(-time.Minute)
	expect(t, e.do(t.Context(), abandoned, long), overdue, noReason)
	expect(t, e.do(t.Context(), begun, long), overdue, noReason)
	if m.starts.Load() != 0 {
		t.Error("it was started after its budget")
	}
}

func TestI5_ASettlementThatTookTheBudgetStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		for _, cmd := range []*agentv1.Command{command(budget(time.Second)), command(startService("Spooler"), budget(time.Second))} {
			ticket := e.begin(cmd, now())
			time.Sleep(time.Second) // fake
			expect(t, e.complete(t.Context(), ticket), overdue, noReason)
		}
		if m.starts.Load()+m.reads.Load() != 0 {
			t.Error("something was started after its budget")
		}
	})
}

// written is a journal of three commands: one that ended, one that was begun, and one that was begun last.
func written(t *testing.T) (data []byte, commands []*agentv1.Command, ends []int) {
	path := newPath(t)
	j := openOn(t, path, &journalDisk{room: -1})
	for i := range 3 {
		cmd := command(startService("Spooler"))
		r, mine, err := j.begin(cmd, true, time.Now())
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		commands, ends = append(commands, cmd), append(ends, j.size)
		if i == 0 {
			j.finish(r, &agentv1.CommandResult{Outcome: succeeded, Message: "done"}, time.Now())
		}
	}
	j.kill()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, commands, ends
}

func TestI3_AFileCutAnywhereKnowsAllThatWasOnDisk(t *testing.T) {
	data, commands, ends := written(t)
	path := newPath(t)
	for _, tail := range []string{"", "\x00\x00\x00"} {
		for cut := len(fileFormat); cut <= len(data); cut++ {
			if err := os.WriteFile(path, append(bytes.Clone(data[:cut]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // what was cut off stays off
				j, err := openDurable(journalConfig(path), (&journalDisk{room: -1}).open)
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				for i, cmd := range commands {
					if known := j.lookup(cmd.GetCommandId(), time.Now()) != nil; known != (cut >= ends[i]) {
						t.Fatalf("cut at %d of %d: command %d, on disk at %d, is known: %t", cut, len(data), i, ends[i], known)
					}
				}
				_ = j.close()
			}
		}
	}
}

func TestI3_ADamagedFileIsNotTrusted(t *testing.T) {
	data, _, _ := written(t)
	path := newPath(t)
	start := 0
	for at := range len(data) - 1 { // without the last newline a line is not whole
		if at > 0 && data[at-1] == '\n' {
			start = at
		}
		damaged := bytes.Clone(data)
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(Config{Name: "BM-1", Host: quick(), HTTP: onHTTP, JournalPath: path})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", start)) {
			t.Fatalf("damaged at %d, in the line from %d: %v", at, start, err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, damaged) {
			t.Fatal("the file was changed")
		}
	}
}

func TestI3_AFullDiskRunsNothingAndReadsGoOn(t *testing.T) {
	for room := 0; room < 1500; room += 7 {
		path, m, d := newPath(t), quick(), &journalDisk{room: room}
		cfg := journalConfig(path)
		cfg.Host = m
		j := openOn(t, path, d)
		e := newExecutor(cfg, j, &counters{})
		var ran, refusals []*agentv1.Command
		for range 4 {
			cmd := command(startService("Spooler"))
			if got := e.do(t.Context(), cmd, time.Now()); got.GetOutcome() == succeeded {
				ran = append(ran, cmd)
			} else {
				expect(t, got, refused, noJournal)
				refusals = append(refusals, cmd)
			}
			expect(t, e.do(t.Context(), command(), time.Now()), succeeded, noReason)
		}
		if int(m.starts.Load()) != len(ran) || len(refusals) == 0 {
			t.Fatalf("room for %d bytes: %d ran, of which %d were recorded", room, m.starts.Load(), len(ran))
		}
		if room%2 == 0 { // there is room again
			d.room = -1
			for _, cmd := range refusals {
				expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
			}
			ran = append(ran, refusals...)
		}
		j.kill()
		e.stopWork()
		again := life(t, m, path)
		for _, cmd := range ran {
			if got := again.do(t.Context(), cmd, time.Now()); got.GetOutcome() != succeeded {
				expect(t, got, refused, alreadyBegun)
			}
		}
		if int(m.starts.Load()) != len(ran) {
			t.Fatalf("room for %d bytes: a command ran twice", room)
		}
		again.kill()
	}
}

func TestI3_WhatCanNotBeSyncedRunsNothing(t *testing.T) {
	for _, failing := range []string{"journal", ".new"} {
		path, m, d := newPath(t), quick(), &journalDisk{room: -1}
		cfg := journalConfig(path)
		cfg.Host = m
		j := openOn(t, path, d)
		e := newExecutor(cfg, j, &counters{})
		defer e.stopWork()
		first, second := command(startService(stoppedService)), command(startService("Spooler"))
		d.failSync = failing
		if failing == ".new" { // the old file is as good as before
			j.compactAt = 0
			expect(t, e.do(t.Context(), first, time.Now()), succeeded, noReason)
			_ = j.file.Close()
			j.file = nil // from here on it is not
		}
		for range 2 {
			expect(t, e.do(t.Context(), second, time.Now()), refused, noJournal)
		}
		expect(t, e.do(t.Context(), command(), time.Now()), succeeded, noReason)
		d.failSync = ""
		expect(t, e.do(t.Context(), first, time.Now()), succeeded, noReason)
		expect(t, e.do(t.Context(), second, time.Now()), succeeded, noReason)
		j.kill()
		again := life(t, m, path)
		expect(t, again.do(t.Context(), first, time.Now()), succeeded, noReason)
		expect(t, again.do(t.Context(), second, time.Now()), succeeded, noReason)
		if m.starts.Load() != 2 {
			t.Errorf("with %q failing, %d ran", failing, m.starts.Load())
		}
	}
}

// A compacted file takes the old one's place only when it is on disk.
func TestI3_ACompactedFileIsOnDisk(t *testing.T) {
	path, d := newPath(t), &journalDisk{room: -1}
	j := openOn(t, path, d)
	cmd := command(startService("Spooler"))
	if _, _, err := j.begin(cmd, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := j.compact(time.Now()); err != nil {
		t.Fatal(err)
	}
	j.kill()
	if openOn(t, path, d).lookup(cmd.GetCommandId(), time.Now()) == nil {
		t.Error("a command that was begun is lost")
	}
}

func TestI5_ASlowDiskStartsNothingLate(t *testing.T) {
	for _, slow := range []time.Duration{time.Second, 2600 * time.Millisecond, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			path, m, d := newPath(t), quick(), &journalDisk{room: -1}
			cfg := journalConfig(path)
			cfg.Host = m
			e := newExecutor(cfg, openOn(t, path, d), &counters{})
			defer e.stopWork()
			cmd := command(startService(stoppedService), budget(57*time.Second)) // all of which it may have waited
			d.slow = slow
			arrived := now()
			begun := e.beginFromBus(cmd, arrived)
			got := e.complete(t.Context(), begun)
			if slow < busPatience {
				expect(t, got, succeeded, noReason)
				return
			}
			expect(t, got, overdue, noReason)
			if m.starts.Load() != 0 || e.lookup(cmd.GetCommandId()).GetState() != neverReceived {
				t.Error("it was started, or is known as begun")
			}
			// Over HTTP the caller counts its budget itself.
			expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
		})
	}
}

func TestI5_ASlowSettlementStartsNothingLate(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		for _, cmd := range []*agentv1.Command{command(), command(startService("Spooler"))} {
			begun := e.beginFromBus(cmd, now())
			time.Sleep(busPatience) // fake
			expect(t, e.complete(t.Context(), begun), overdue, noReason)
		}
		if m.starts.Load()+m.reads.Load() != 0 {
			t.Error("something was started late")
		}
	})
}

func TestAJournalIsOneProcess(t *testing.T) {
	path := newPath(t)
	j := openOn(t, path, &journalDisk{room: -1})
	if _, err := openDurable(journalConfig(path), openFile); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("a second one got it: %v", err)
	}
	j.kill()
	r, mine, err := j.begin(command(startService("Spooler")), true, time.Now())
	if err == nil {
		t.Errorf("a closed journal took a command: %v %t", r, mine)
	}
	openOn(t, path, &journalDisk{room: -1})
}

func TestTheFileIsPrunedAndBounded(t *testing.T) {
	path := newPath(t)
	j := openOn(t, path, &journalDisk{room: -1})
	now := time.Now()
	write := func(at time.Time, message string) string {
		cmd := command(startService("Spooler"))
		r, mine, err := j.begin(cmd, true, at)
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		j.finish(r, &agentv1.CommandResult{Outcome: succeeded, Message: message, Payload: &agentv1.CommandResult_Changes{
			Changes: &agentv1.Changes{Changes: []*agentv1.Change{{Subject: strings.Repeat("x", 60<<10)}}},
		}}, at)
		return cmd.GetCommandId()
	}
	old := write(now, "")
	if j.lookup(old, now.Add(24*time.Hour-1)) == nil || j.lookup(old, now.Add(24*time.Hour)) != nil {
		t.Error("a write is not known for 24 h, or longer")
	}
	old = write(now.Add(-48*time.Hour), "long ago")
	for i := range 100 { // 6 MB, of ever later days
		now = now.Add(12 * time.Hour)
		write(now, fmt.Sprint(i))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 3*compactFrom {
		t.Errorf("the file is not compacted: %v %v", info.Size(), err)
	}
	if j.lookup(old, now) != nil || len(j.index.records) > 2 {
		t.Errorf("%d records are kept", len(j.index.records))
	}
	long := &agentv1.CommandResult{Outcome: succeeded, Payload: &agentv1.CommandResult_Changes{
		Changes: &agentv1.Changes{Changes: []*agentv1.Change{{Subject: strings.Repeat("x", resultLimit)}}},
	}}
	if got := j.keeping(long); got.GetChanges() != nil || got.GetOutcome() != succeeded || got.GetMessage() == "" {
		t.Errorf("of a long result %d bytes are kept", proto.Size(got))
	}
}

// A clock that was set, before or between two starts, must not make the agent forget what may still come again.
func TestI3_ARestartTrustsNoClock(t *testing.T) {
	for _, off := range []time.Duration{-10000 * time.Hour, -25 * time.Hour, 0, 10000 * time.Hour} {
		path := newPath(t)
		j := openOn(t, path, &journalDisk{room: -1})
		cmd := command(startService("Spooler"))
		if _, _, err := j.begin(cmd, true, time.Now().Add(off)); err != nil {
			t.Fatal(err)
		}
		j.kill()
		j = openOn(t, path, &journalDisk{room: -1})
		now := time.Now()
		if j.lookup(cmd.GetCommandId(), now.Add(59*time.Minute)) == nil || j.lookup(cmd.GetCommandId(), now.Add(24*time.Hour)) != nil {
			t.Errorf("with a clock %s off it is not known for an hour, or for more than a day", off)
		}
	}
}

// model is what the property test knows of one command.
type model struct {
	runs  int
	begun bool   // at some time, so that it may be known
	ended string // message of the outcome that is on disk for sure
}

// TestI3_NoHistoryRunsACommandTwice lives random lives: deliveries, settlements that fail, crashes at every point, torn lines,
// full disks, disks that sync nothing, compactions.
func TestI3_NoHistoryRunsACommandTwice(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 3))
		path, d := newPath(t), &journalDisk{room: -1}
		j := openOn(t, path, d)
		models := map[string]*model{}
		var ids []string
		for range 5 {
			ids = append(ids, uuid.NewString())
			models[ids[len(ids)-1]] = &model{}
		}
		crash := func() {
			if random.IntN(2) == 0 {
				_ = j.close() // only the process died
			} else {
				j.kill()
			}
			if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600); err == nil && random.IntN(2) == 0 {
				_, _ = f.WriteString([]string{"000000", "000000f2 12345678 {\"state\":\"beg", "\x00\x00"}[random.IntN(3)])
				_ = f.Close()
			}
			if random.IntN(4) > 0 {
				d.room, d.failSync = -1, ""
			}
			j = openOn(t, path, d)
		}
		for step := range 60 {
			switch random.IntN(9) {
			case 0:
				d.room = random.IntN(400)
			case 1:
				d.room, d.failSync = -1, ""
			case 2:
				j.compactAt = 0
			case 3:
				crash()
			case 4:
				d.failSync = []string{"journal", ".new"}[random.IntN(2)]
			default:
				id := ids[random.IntN(len(ids))]
				if problem := deliver(j, id, models[id], random, d, crash); problem != "" {
					t.Fatalf("seed %d, step %d, command %s: %s", seed, step, id, problem)
				}
			}
		}
		j.kill()
	}
}

// deliver brings a command to the journal, as either transport does, and dies now and then.
func deliver(j *mortal, commandID string, m *model, random *rand.Rand, d *journalDisk, crash func()) (problem string) {
	r, mine, err := j.begin(command(id(commandID), startService("Spooler")), true, time.Now())
	switch {
	case err != nil:
		m.begun = true // the line may be whole on disk
		if d.takesAll() {
			return "refused though the disk takes all: " + err.Error()
		}
		return ""
	case !mine && !m.begun:
		return "known, and was never begun"
	case !mine && m.ended != "" && r.result.GetMessage() != m.ended:
		return fmt.Sprintf("answered %v, ended as %q", r.result, m.ended)
	case !mine:
		return ""
	case m.runs > 0:
		return "begun a second time"
	}
	m.begun = true
	switch random.IntN(5) {
	case 0: // before or in the settlement
		crash()
	case 1: // the settlement failed
		j.forget(r, nil)
	case 2:
		m.runs++
		crash()
	default:
		m.runs++
		result := &agentv1.CommandResult{Outcome: succeeded, Message: fmt.Sprint("ended ", random.Uint32())}
		j.finish(r, result, time.Now())
		if d.takesAll() {
			m.ended = result.GetMessage()
		}
		if random.IntN(2) == 0 {
			crash()
		}
	}
	return ""
}

func TestForgettingRunsTwice(t *testing.T) {
	m := newMachine(simulated.Options{StartDuration: -1})
	e := executorOn(m)
	defer e.stopWork()
	e.faults.ForgetCommands()
	cmd := command(startService(stoppedService))
	expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
	expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
	if m.starts.Load() != 2 {
		t.Errorf("without its journal it ran %d times", m.starts.Load())
	}
}
