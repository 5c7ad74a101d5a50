// Package servernames finds rows of TblServer by name as names are compared everywhere, by folding them in Go. No collation does that: one
// compares only ASCII, another takes letters with accents for those without.
//
// TblServer gets no columns of ours, and another codebase writes it. So the folded names are kept in a table of the service, a row per
// server with the name it was folded from. What is found there counts only if the server still has that name, and a row of TblServer that
// is not there yet, or under another name, is folded at the read. So every answer is right; the table only saves the work.
//
// The service's store has the statements stale_server_names, write_server_names and forget_server_names, and a statement of its own that
// reads candidates by Args.
package servernames

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf16"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

const (
	// chunk is how many names one transaction writes.
	chunk = 2_000
	// chunks is how many of them one call pays for. What is left is written by the calls that follow.
	chunks = 5
)

// Names is the table of folded names of one database.
type Names struct {
	db *sqldb.DB
	// stale says that rows may have to be written: at the start, and when a read found some.
	stale atomic.Bool
	// refreshing is held by the call that writes what is missing; those that come meanwhile go on without.
	refreshing sync.Mutex
}

// New is the table in a database.
func New(db *sqldb.DB) *Names {
	names := &Names{db: db}
	names.stale.Store(true)
	return names
}

// Reader runs statements that read.
type Reader interface {
	Rows(ctx context.Context, name string, scan func(scan func(dest ...any) error) error, args ...any) error
}

// Args are the parameters of a statement that reads the servers which may have a name: by the database's own collation, @name and @folded, or
// by the table, @nameKey. The caller keeps those that spelling.Same takes for the name, and adds those of Unfolded.
func Args(name string) []any {
	folded := spelling.Key(name)
	return []any{sqldb.Named("name", strings.TrimSpace(name)), sqldb.Named("folded", folded), sqldb.Named("nameKey", indexed(folded))}
}

// maxKey is the room for a name's key in the index, in UTF-16 code units; no agent's is longer.
const maxKey = 512

// indexed is a folded name as the index has it. A longer one than any agent's is cut, and told from others by its hash.
func indexed(folded string) string {
	if len(folded) <= maxKey || len(utf16.Encode([]rune(folded))) <= maxKey {
		return folded
	}
	sum := sha256.Sum256([]byte(folded))
	return string([]rune(folded)[:maxKey/4]) + " " + hex.EncodeToString(sum[:])
}

type settled struct{}

// Unfolded returns the keys of the servers of a name that the table does not tell of yet.
func (n *Names) Unfolded(ctx context.Context, from Reader, name string) ([]int64, error) {
	if ctx.Value(settled{}) != nil {
		return nil, nil
	}
	var keys []int64
	folded := spelling.Key(name)
	rows, err := staleRows(ctx, from, 0)
	for _, row := range rows {
		n.stale.Store(true)
		if spelling.Key(row.name) == folded {
			keys = append(keys, row.key)
		}
	}
	return keys, err
}

type row struct {
	key  int64
	name string
}

// staleRows reads servers that the table lacks, or has under another name. Limit 0 reads all.
func staleRows(ctx context.Context, from Reader, limit int) ([]row, error) {
	if limit == 0 {
		limit = 1 << 30
	}
	var rows []row
	err := from.Rows(ctx, "stale_server_names", func(scan func(...any) error) error {
		var r row
		err := scan(&r.key, (*sqldb.String)(&r.name))
		rows = append(rows, r)
		return err
	}, sqldb.Named("limit", limit))
	return rows, err
}

// Refresh writes what a read found missing, a bounded part of it. Answers are right without it, so a database that cannot be written to is
// no reason to fail: it is tried again with the next call.
func (n *Names) Refresh(ctx context.Context) {
	if !n.stale.Load() || !n.refreshing.TryLock() {
		return
	}
	defer n.refreshing.Unlock()
	_ = n.write(ctx, chunks)
}

// Note writes the name that a server is given, in the transaction that gives it: so the table lacks no name that the service itself wrote, and
// callers at once do not all write it afterwards.
func (n *Names) Note(ctx context.Context, tx *sqldb.Tx, key int64, name string) error {
	return n.put(ctx, tx, []row{{key, name}})
}

// Look writes what is missing, a bounded part of it, whether or not a read has noticed. It is for lists, which read the table alone.
func (n *Names) Look(ctx context.Context) { _ = n.write(ctx, chunks) }

// Settle writes all that is missing, and returns a context under which nothing more is looked for: for a call that asks for many names.
func (n *Names) Settle(ctx context.Context) context.Context {
	if err := n.write(ctx, 1<<30); err != nil {
		return ctx // each look-up then folds what is missing
	}
	return context.WithValue(ctx, settled{}, true)
}

func (n *Names) write(ctx context.Context, most int) error {
	written := false
	for range most {
		var rows []row
		if err := n.db.View(ctx, func(tx *sqldb.Tx) (err error) {
			rows, err = staleRows(ctx, tx, chunk)
			return err
		}); err != nil {
			return err
		}
		if len(rows) == 0 {
			n.stale.Store(false)
			break
		}
		if err := n.store(ctx, rows); err != nil {
			return err
		}
		written = true
	}
	if !written {
		return nil
	}
	return n.db.Change(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "forget_server_names", sqldb.Named("limit", chunk))
		return err
	})
}

func (n *Names) store(ctx context.Context, rows []row) error {
	return n.db.Change(ctx, func(tx *sqldb.Tx) error { return n.put(ctx, tx, rows) })
}

func (n *Names) put(ctx context.Context, tx *sqldb.Tx, rows []row) error {
	batch := make([][]any, len(rows))
	for i, r := range rows {
		batch[i] = []any{r.key, r.name, indexed(spelling.Key(r.name))}
	}
	encoded, err := json.Marshal(batch)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "write_server_names", sqldb.JSON("batch", encoded))
	return err
}
