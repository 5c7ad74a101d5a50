package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/internal/failover/disk"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Bounds of the durable journal.
const (
	durableWritesLimit = 100_000  // per Config.JournalKept; more are refused
	resultLimit        = 64 << 10 // bytes of one result; longer ones are kept without payload
	resultsLimit       = 32 << 20 // bytes of all results; those beyond are kept without payload
	compactFrom        = 1 << 20  // bytes of a file that is worth writing anew
	// staleKept is how many records stay beyond their age when a process starts: which age they have only a clock knows
	// that may have been set, and the process before may have been this clock's only witness.
	staleKept = 10_000
)

var errJournalClosed = errors.New("the journal is closed: the agent has stopped")

// durable is a journal of which the writes are also in a file, each line on disk before anything rests on it, so that the
// next process knows them. Reads are in memory only: what they find again is as good.
type durable struct {
	index  *memory
	agent  string
	path   string
	kept   time.Duration
	logger *slog.Logger
	open   func(path string, flag int) (file, error)
	lock   *flock.Flock

	mu        sync.Mutex // of what follows, and held before the index's; reads do not wait for it
	file      file       // nil: what it holds is in doubt, so it is written anew before anything else is recorded
	size      int        // bytes
	compactAt int        // size at which it is written anew
	closed    bool
}

// file is what a journal needs of one; tests have it fail.
type file interface {
	io.WriteCloser
	Sync() error
}

func openFile(path string, flag int) (file, error) { return os.OpenFile(path, flag, 0o600) }

// openDurable opens the journal of the configuration, or makes it. Errors are that it is another process's, that it can't
// be read, and that it is damaged. A disk that takes nothing is none: the journal tries again with each command, and
// refuses them meanwhile.
func openDurable(cfg Config, open func(string, int) (file, error)) (*durable, error) {
	d := &durable{
		index: newMemory(), agent: cfg.Name, path: cfg.JournalPath, kept: cfg.JournalKept, logger: cfg.Logger, open: open,
		lock: flock.New(cfg.JournalPath + ".lock"), compactAt: compactFrom,
	}
	d.index.limits[1] = limits{d.kept, durableWritesLimit}
	mine, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("agent config: JournalPath: %w", err)
	}
	if !mine {
		return nil, fmt.Errorf("agent config: JournalPath: another process has the journal %s", d.path)
	}
	if err := d.load(time.Now()); err != nil {
		_ = d.lock.Unlock()
		return nil, fmt.Errorf("agent config: JournalPath: %w", err)
	}
	return d, nil
}

// load takes over what the last process left.
func (d *durable) load(now time.Time) error {
	data, err := os.ReadFile(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, torn, err := parseJournal(d.path, data)
	if err != nil {
		return err
	}
	anew := len(data) == 0 || torn > 0 || len(data) >= compactFrom
	if torn > 0 {
		d.logger.Warn("the journal ends in the middle of a line, as after a crash; that line is cut off", "path", d.path,
			"offset", len(data)-torn, "bytes", torn)
	}
	entries = latest(entries)
	unfinished := 0
	for _, e := range entries {
		if e.State == stateBegun {
			unfinished++
		}
		anew = anew || e.State == stateRestarting
	}
	if err := d.restore(entries, now); err != nil {
		return err
	}
	if unfinished > 0 {
		d.logger.Warn("commands were begun and not finished before the agent started; they may have run, and are not run again", "commands", unfinished)
	}
	if !anew {
		d.size, d.compactAt = len(data), max(compactFrom, 2*len(data))
		d.file, err = d.open(d.path, os.O_WRONLY|os.O_APPEND)
	} else {
		err = d.compact(now)
	}
	if err != nil {
		d.logger.Error("the journal can't be written; commands that change anything are refused until it can", "error", err)
	}
	return nil
}

// restore fills the index. All ages are made to fit this process's monotonic clock: nothing counts as younger than now, and
// nothing as so old that a message still under way could find it gone.
func (d *durable) restore(entries []entry, now time.Time) error {
	var records []*record
	for _, e := range entries {
		r, err := recordOf(e, d.agent, now)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b *record) int { return a.finishedAt.Compare(b.finishedAt) })
	stale, _ := slices.BinarySearchFunc(records, now.Add(-d.kept), func(r *record, t time.Time) int { return r.finishedAt.Compare(t) })
	for _, r := range records[max(0, stale-staleKept):] {
		age := min(max(0, now.Sub(r.finishedAt)), d.kept-maxBudget)
		r.finishedAt = now.Add(-age)
		d.index.restore(r)
	}
	return nil
}

func (d *durable) begin(cmd *agentv1.Command, write bool, now time.Time) (*record, bool, error) {
	if !write {
		return d.index.begin(cmd, write, now)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, mine, err := d.index.begin(cmd, write, now)
	if err != nil || !mine {
		return r, mine, err
	}
	if err := d.record(entryOf(r, stateBegun, nil, now), now); err != nil {
		d.index.forget(r, nil)
		return nil, false, err
	}
	return r, true, nil
}

func (d *durable) restarting(r *record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.record(entryOf(r, stateRestarting, nil, time.Time{}), time.Now()); err != nil {
		return err
	}
	r.restarting = true
	return nil
}

func (d *durable) finish(r *record, result *agentv1.CommandResult, now time.Time) {
	if !r.write {
		d.index.finish(r, result, now)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	result = d.keeping(result)
	if err := d.record(entryOf(r, stateFinished, result, now), now); err != nil {
		d.logger.Error("the outcome of a command could not be recorded; should the agent end now, it is not known any more",
			"command_id", r.key, "outcome", result.GetOutcome().String(), "error", err)
	}
	d.index.finish(r, result, now)
}

// forget need not succeed on disk: the command would only be refused in the next process.
func (d *durable) forget(r *record, result *agentv1.CommandResult) {
	if r.write {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.record(entryOf(r, stateForgotten, nil, time.Time{}), time.Now()); err != nil {
			d.logger.Warn("that a command was not started could not be recorded", "command_id", r.key, "error", err)
		}
	}
	d.index.forget(r, result)
}

func (d *durable) lookup(id string, now time.Time) *record { return d.index.lookup(id, now) }

func (d *durable) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var err error
	if d.file != nil {
		err = d.file.Close()
		d.file = nil
	}
	return errors.Join(err, d.lock.Unlock())
}

// keeping is what is kept of a result.
func (d *durable) keeping(result *agentv1.CommandResult) *agentv1.CommandResult {
	d.index.mu.Lock()
	size := d.index.size
	d.index.mu.Unlock()
	if size+proto.Size(result) > resultsLimit {
		return stripped(result, "the journal is too full to keep all of the answer")
	}
	return shortResult(result)
}

// shortResult leaves the payload of a long result out.
func shortResult(result *agentv1.CommandResult) *agentv1.CommandResult {
	if proto.Size(result) <= resultLimit {
		return result
	}
	return stripped(result, "the answer is too long to be kept whole")
}

// record has the entry on disk when it returns nil. The index must not be ahead of the file, except by a command that is
// begun: whatever the entry says goes to the file, and then to the index. d.mu is held.
func (d *durable) record(e entry, now time.Time) error {
	if d.closed {
		return errJournalClosed
	}
	line, err := e.line()
	if err != nil {
		return fmt.Errorf("journal %s: %w", d.path, err)
	}
	if d.file == nil || d.size >= d.compactAt {
		if err := d.compact(now); err != nil {
			if d.file == nil {
				return err
			}
			d.logger.Warn("the journal can't be compacted; it goes on growing", "error", err)
			d.compactAt = d.size + compactFrom
		}
	}
	if _, err = d.file.Write(line); err == nil {
		err = d.file.Sync()
	}
	if err != nil { // how much of the line is on disk is not known, so nothing may be written after it
		d.file.Close()
		d.file = nil
		return fmt.Errorf("journal %s can't be written: %w", d.path, err)
	}
	d.size += len(line)
	return nil
}

// compact writes the file anew, with what is still to be known, and puts it in the place of the old one. If that fails
// before the old one was touched, it is still written to. d.mu is held.
func (d *durable) compact(now time.Time) error {
	fresh := d.path + ".new"
	size, err := d.writeAll(fresh, now)
	if err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("journal %s can't be written anew: %w", d.path, err)
	}
	if d.file != nil {
		d.file.Close() // Windows renames over no open file
		d.file = nil
	}
	if err = os.Rename(fresh, d.path); err == nil {
		err = disk.SyncFolder(d.path)
	}
	var f file
	if err == nil {
		f, err = d.open(d.path, os.O_WRONLY|os.O_APPEND)
	}
	if err != nil {
		return fmt.Errorf("journal %s can't be replaced: %w", d.path, err)
	}
	d.file, d.size, d.compactAt = f, size, max(compactFrom, 2*size)
	return nil
}

// writeAll writes all that the index has to a new file, and says how long that is.
func (d *durable) writeAll(path string, now time.Time) (size int, err error) {
	f, err := d.open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	size, err = out.WriteString(fileFormat)
	if err != nil {
		return 0, err
	}
	records, ended := d.index.allWrites(now)
	for i, r := range records {
		s := stateBegun
		switch {
		case i < ended && r.result != nil:
			s = stateFinished
		case r.restarting:
			s = stateRestarting
		}
		line, err := entryOf(r, s, r.result, r.finishedAt).line()
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return 0, err
		}
		size += len(line)
	}
	return size, errors.Join(out.Flush(), f.Sync())
}
