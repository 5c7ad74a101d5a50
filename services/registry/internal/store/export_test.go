package store

import (
	"context"
	"io/fs"
	"maps"
	"time"

	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Run runs one statement in a transaction of its own, and tells how many rows it changed, or returned if it returns any.
func (s *Store) Run(ctx context.Context, statement string, args map[string]any) (rows int64, err error) {
	var list []any
	for name, value := range args {
		list = append(list, named(name, value))
	}
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		rows = 0
		if statement == "update_server" {
			return tx.Rows(ctx, statement, func(scan func(...any) error) error {
				var key int64
				rows++
				return scan(&key)
			}, list...)
		}
		rows, err = tx.Exec(ctx, statement, list...)
		return err
	})
	return rows, err
}

// OpenWith opens a store some of whose statements are others.
func OpenWith(url string, statements fs.FS) (*Store, error) {
	db, err := sqldb.Open(url, statements)
	return &Store{db: db, names: servernames.New(db)}, err
}

// WritesOrder is the order in which rows of these keys are written, by statement.
func WritesOrder(keys []int64) map[string][]int64 {
	rows := map[string]*known{}
	for _, key := range keys {
		row := &known{key: key}
		row.changes = enrollment.Changes{Liveness: true, Content: true, Bindings: true, Claim: true}
		rows[string(rune(key))] = row
	}
	writes := writesOf(rows)
	order := map[string][]int64{}
	for _, write := range writes {
		for _, row := range write.rows {
			order[write.statement] = append(order[write.statement], row[0].(int64))
		}
	}
	return order
}

// With is a copy of args with one of them changed.
func With(args map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(args)
	changed[name] = value
	return changed
}

// Changed is what decides whether an update lost its race.
var Changed = changed

// Proof is one consumer's row of evidence.
type Proof struct {
	Alive, Since   time.Time
	Canary, Oldest any
}

// EvidenceOf is what the proofs of a path's consumers say together.
func EvidenceOf(at time.Time, proofs ...Proof) PathEvidence {
	var rows []proof
	for _, p := range proofs {
		rows = append(rows, proof{alive: sqldb.Time{Time: p.Alive}, since: sqldb.Time{Time: p.Since}, canary: p.Canary, oldest: p.Oldest})
	}
	return PathEvidence{}.with(rows, at)
}

// EachOnce is what becomes of servers that were read twice.
var EachOnce = eachOnce

// StepClock steps the database's clock, for this store.
func (s *Store) StepClock(offset time.Duration) { s.db.StepClock(offset) }
