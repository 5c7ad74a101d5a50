package agent

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// journal remembers commands, so that none is begun twice. Implementations are safe for concurrent use.
type journal interface {
	// begin makes the caller the one who runs the command, with mine true, and then finish or forget must follow; or
	// it gives the record of whoever did so before. An error means that the command can't be recorded, and must not
	// be run.
	begin(cmd *agentv1.Command, write bool, now time.Time) (r *record, mine bool, err error)
	// finish records what became of a command that was begun.
	finish(r *record, result *agentv1.CommandResult, now time.Time)
	// forget takes a command back that was not started after all, so that it may come again. Whoever waits for it gets
	// the result.
	forget(r *record, result *agentv1.CommandResult)
	// restarting records that the command is about to end this very process. If it does, before finish, the next process
	// has it succeeded. An error means that it can't be recorded, and must not be done.
	restarting(r *record) error
	// lookup gives the record of a command; nil if there is none.
	lookup(id string, now time.Time) *record
	// close ends the journal. What comes later is refused, or lost.
	close() error
}

// record is one command.
type record struct {
	key   string
	print fingerprint
	write bool
	begun time.Time
	done  chan struct{} // closed once the outcome is known, or known to be lost

	// valid once done is closed
	result     *agentv1.CommandResult // nil: begun, and the outcome is lost
	finishedAt time.Time              // of an outcome that is lost: when it was begun
	size       int                    // bytes of the result

	restarting bool // guarded by the file's lock
}

// fingerprint tells whether two commands of one id ask for the same. Another release of the protobuf library might encode
// another way; a repeat from before the update would be refused then, and not run.
type fingerprint [sha256.Size]byte

func fingerprintOf(cmd *agentv1.Command) (fingerprint, error) {
	asked, err := proto.MarshalOptions{Deterministic: true}.Marshal(&agentv1.Command{Operation: cmd.GetOperation()})
	return sha256.Sum256(asked), err
}

// Bounds of the memory journal. A repeated write is a danger for as long as something may deliver it again, which
// is far below an hour. A repeated read only costs time, so reads give way first.
const (
	writesKept  = time.Hour
	writesLimit = 10_000 // per writesKept; more are refused
	readsKept   = 2 * time.Minute
	readsLimit  = 128 // the oldest give way
)

// memory is a journal that ends with the process. That is enough as long as no command is delivered to the next one:
// the bus settles before it starts a command, and HTTP never repeats by itself. It is also the index of a durable one.
type memory struct {
	mu      sync.Mutex
	records map[string]*record
	writes  int       // records of writes, running ones included
	size    int       // bytes of the results of writes
	ended   [2]queue  // finished ones, oldest first: reads, writes
	limits  [2]limits // likewise
}

type (
	queue  []*record
	limits struct {
		kept  time.Duration
		count int
	}
)

var errJournalFull = errors.New("there were too many writes to keep a record of one more, as long as records are kept")

func newMemory() *memory {
	return &memory{records: map[string]*record{}, limits: [2]limits{{readsKept, readsLimit}, {writesKept, writesLimit}}}
}

func kindIndex(write bool) int {
	if write {
		return 1
	}
	return 0
}

func (m *memory) begin(cmd *agentv1.Command, write bool, now time.Time) (*record, bool, error) {
	print, err := fingerprintOf(cmd)
	if err != nil {
		return nil, false, err
	}
	key := keyOf(cmd.GetCommandId())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(now)
	if known := m.records[key]; known != nil {
		return known, false, nil
	}
	if write && m.writes >= m.limits[1].count {
		return nil, false, errJournalFull
	}
	r := &record{key: key, print: print, write: write, begun: now, done: make(chan struct{})}
	m.records[key] = r
	m.writes += kindIndex(write)
	return r, true, nil
}

func (m *memory) finish(r *record, result *agentv1.CommandResult, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.result, r.finishedAt = result, now
	if r.write {
		r.size = proto.Size(result)
		m.size += r.size
	}
	close(r.done)
	kind := kindIndex(r.write)
	m.ended[kind] = append(m.ended[kind], r)
}

func (m *memory) forget(r *record, result *agentv1.CommandResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.result = result
	close(r.done)
	m.drop(r)
}

func (m *memory) restarting(*record) error { return nil }

func (m *memory) close() error { return nil }

func (m *memory) lookup(id string, now time.Time) *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(now)
	return m.records[keyOf(id)]
}

// keyOf a command's id, which is a UUID, in any case.
func keyOf(id string) string { return strings.ToLower(id) }

// restore puts the record of a write back that another process left. Its outcome is as known as it will ever be.
func (m *memory) restore(r *record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.write, r.size, r.done = true, proto.Size(r.result), make(chan struct{})
	close(r.done)
	m.records[r.key] = r
	m.writes++
	m.size += r.size
	m.ended[1] = append(m.ended[1], r)
}

// allWrites are the records of writes, ended ones first, oldest first, and whether each has ended.
func (m *memory) allWrites(now time.Time) (all []*record, ended int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(now)
	all = slices.Clone(m.ended[1])
	ended = len(all)
	for _, r := range m.records {
		select {
		case <-r.done:
		default:
			if r.write {
				all = append(all, r)
			}
		}
	}
	return all, ended
}

// prune drops what is older than it is kept, and the oldest reads beyond their limit.
func (m *memory) prune(now time.Time) {
	for kind := range m.ended {
		for len(m.ended[kind]) > 0 {
			oldest := m.ended[kind][0]
			old := now.Sub(oldest.finishedAt) >= m.limits[kind].kept
			if !old && (oldest.write || len(m.ended[kind]) < m.limits[kind].count) {
				break
			}
			m.ended[kind] = m.ended[kind][1:]
			m.drop(oldest)
		}
	}
}

func (m *memory) drop(r *record) {
	delete(m.records, r.key)
	m.size -= r.size
	m.writes -= kindIndex(r.write)
}
