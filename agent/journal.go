package agent

import (
	"crypto/sha256"
	"errors"
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
}

// record is one command.
type record struct {
	key   string
	print fingerprint
	write bool
	done  chan struct{} // closed once the outcome is known, or known to be lost

	// valid once done is closed
	result     *agentv1.CommandResult // nil: begun, and the outcome is lost
	finishedAt time.Time
}

// fingerprint tells whether two commands of one id ask for the same.
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
// the bus settles before it starts a command, and HTTP never repeats.
type memory struct {
	mu      sync.Mutex
	records map[string]*record
	writes  int       // records of writes, running ones included
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

var errJournalFull = errors.New("too many writes within the hour to keep a record of this one")

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
	key := strings.ToLower(cmd.GetCommandId()) // a UUID
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune(now)
	if known := m.records[key]; known != nil {
		return known, false, nil
	}
	if write && m.writes >= m.limits[1].count {
		return nil, false, errJournalFull
	}
	r := &record{key: key, print: print, write: write, done: make(chan struct{})}
	m.records[key] = r
	m.writes += kindIndex(write)
	return r, true, nil
}

func (m *memory) finish(r *record, result *agentv1.CommandResult, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.result, r.finishedAt = result, now
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
	m.writes -= kindIndex(r.write)
}
