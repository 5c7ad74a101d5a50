package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Recorded is what became of one heartbeat.
type Recorded struct {
	Result enrollment.Result
	Agent  cloud.Agent // whose it was, as control servers are assigned; only of direct ones that were taken
}

// RecordHeartbeats stores the effect of a batch in one transaction, and tells per item what it did. When it returns without an
// error all of it is durable; with an error, nothing is. Items the database will never take are returned as rejected.
func (s *Store) RecordHeartbeats(ctx context.Context, heartbeats []enrollment.Heartbeat) (recorded []Recorded, rejected map[int]error, err error) {
	recorded = make([]Recorded, len(heartbeats))
	rejected = map[int]error{}
	b := batch{recorded: recorded, rejected: rejected, gotAt: time.Now()}
	err = s.record(ctx, heartbeats, 0, b)
	return recorded, rejected, err
}

// batch is what becomes of the heartbeats of one call.
type batch struct {
	recorded []Recorded
	rejected map[int]error
	gotAt    time.Time // by this process's monotonic clock: their ages grow while they wait for the database
}

// record stores a part of a batch; a part the database refuses for its data is halved down to the item at fault.
func (s *Store) record(ctx context.Context, part []enrollment.Heartbeat, offset int, b batch) error {
	if len(part) == 0 {
		return nil
	}
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		return recordOnce(ctx, tx, part, b.recorded[offset:offset+len(part)], b.gotAt)
	})
	if err == nil || !sqldb.Rejected(err) {
		return err
	}
	if len(part) == 1 {
		b.rejected[offset] = err
		return nil
	}
	half := len(part) / 2
	if err := s.record(ctx, part[:half], offset, b); err != nil {
		return err
	}
	return s.record(ctx, part[half:], offset+half, b)
}

// known is a row as read, and what a batch makes of it.
type known struct {
	key, version int64
	unfolded     bool // the host name is stored without its key, or with another's: by a release that knew none
	isNew        bool // made for this batch, and nothing of it is applied yet
	contact      enrollment.Contact
	changes      enrollment.Changes
	assigned     cloud.Agent
}

func recordOnce(ctx context.Context, tx *sqldb.Tx, part []enrollment.Heartbeat, recorded []Recorded, gotAt time.Time) error {
	at, err := now(ctx, tx)
	if err != nil {
		return err
	}
	held := time.Since(gotAt)
	rows := make(map[string]*known, len(part))
	if err := readContacts(ctx, tx, keysOf(part), rows); err != nil {
		return err
	}
	if err := insertUnknown(ctx, tx, part, rows, at); err != nil {
		return err
	}
	for _, i := range asObserved(part) {
		heartbeat := part[i]
		row := rows[heartbeat.Name.Key]
		if heartbeat.OnlyKnown != nil && (row == nil || row.isNew) {
			recorded[i] = Recorded{Result: enrollment.NotNew}
			continue
		}
		if _, ok := heartbeat.Register(); !ok && (row == nil || row.isNew) {
			recorded[i] = Recorded{Result: enrollment.NotRegistered}
			continue
		}
		recorded[i] = row.receive(heartbeat.Placed(at, held), at)
	}
	return writeContacts(ctx, tx, rows)
}

// asObserved is the order in which a batch's heartbeats were observed. Machines that take turns under one name are seen in that order
// only; a back-log is received by several receivers at once.
func asObserved(part []enrollment.Heartbeat) []int {
	order := make([]int, len(part))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return part[a].Order.ObservedAt.Compare(part[b].Order.ObservedAt) })
	return order
}

// receive applies one heartbeat to what is known of its agent.
func (row *known) receive(heartbeat enrollment.Heartbeat, at time.Time) Recorded {
	contact, changes, result := row.contact.Receive(heartbeat, at)
	row.contact, row.changes = contact, row.changes.And(changes)
	row.changes.Content = row.changes.Content || (row.unfolded && row.changes.Any())
	if row.isNew && result.Taken() {
		result, row.isNew = enrollment.Created, false
	}
	if heartbeat.Path == enrollment.Bus || !result.Taken() {
		return Recorded{Result: result}
	}
	agent := row.assigned
	agent.Key, agent.Hash = row.key, cloud.Hash(heartbeat.Name.Key)
	return Recorded{Result: result, Agent: agent}
}

func keysOf(part []enrollment.Heartbeat) []string {
	keys := make([]string, 0, len(part))
	for _, heartbeat := range part {
		keys = append(keys, heartbeat.Name.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func readContacts(ctx context.Context, tx *sqldb.Tx, keys []string, rows map[string]*known) error {
	encoded, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return tx.Rows(ctx, "contacts", func(scan func(...any) error) error {
		row, nameKey, err := scanContact(scan)
		rows[nameKey] = row
		return err
	}, sqldb.JSON("names", encoded))
}

func scanContact(scan func(...any) error) (*known, string, error) {
	row := &known{}
	c := &row.contact
	var nameKey string
	var bus, direct, observed, reported, conflict, bindingsAt sqldb.Time
	var url, capabilities, boots, hostnameKey sqldb.String
	var hasBindings, turns, count, claimable, group, primary, secondary sqldb.Int
	err := scan(&row.key, &nameKey, &row.version, &bus, &direct, &c.Newest.BootID, &c.Newest.Sequence, &observed,
		&c.Content.ReportedName, &c.Content.Hostname, &c.Content.AgentVersion, &url, &capabilities, &reported, &boots, &turns,
		&conflict, &hasBindings, &count, &c.BindingsOrder.BootID, &c.BindingsOrder.Sequence, &bindingsAt,
		&c.TokenHash, &claimable, &group, &primary, &secondary, &hostnameKey)
	if err != nil {
		return row, nameKey, err
	}
	c.LastBusAt, c.LastDirectAt, c.Newest.ObservedAt = bus.Time, direct.Time, observed.Time
	c.Content.HTTPBaseURL, c.Content.ReportedAt, c.Content.BindingsCount = string(url), reported.Time, int(count)
	c.ConflictAt, c.BindingsOrder.ObservedAt, c.Turns = conflict.Time, bindingsAt.Time, int(turns)
	c.Claimable = claimable == 1
	row.assigned = cloud.Agent{Group: int64(group), Primary: int64(primary), Secondary: int64(secondary)}
	row.unfolded = string(hostnameKey) != spelling.Fold(c.Content.Hostname)
	if hasBindings == 1 {
		c.Bindings = []byte{} // there are some; their text is not needed to decide
	}
	if capabilities != "" {
		if err := json.Unmarshal([]byte(capabilities), &c.Content.Capabilities); err != nil {
			return row, nameKey, err
		}
	}
	if boots != "" {
		err = json.Unmarshal([]byte(boots), &c.EarlierBoots)
	}
	return row, nameKey, err
}

// insertUnknown makes Pending rows for agents nobody heard of, claimed by who registers first; then it reads them like the others: another
// replica may have been first.
func insertUnknown(ctx context.Context, tx *sqldb.Tx, part []enrollment.Heartbeat, rows map[string]*known, at time.Time) error {
	unknown := map[string][]any{}
	for _, heartbeat := range part {
		key := heartbeat.Name.Key
		claim, ok := heartbeat.Register()
		if rows[key] != nil || !ok || heartbeat.OnlyKnown != nil {
			continue
		}
		if unknown[key] == nil {
			unknown[key] = []any{key, heartbeat.Name.Spelling, flagOf(false), hexOrNull(claim.TokenHash)}
		}
		if heartbeat.Path == enrollment.Bus {
			unknown[key][2] = flagOf(true)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(unknown)) // in one order in every replica, as in writesOf
	batch := make([][]any, 0, len(keys))
	for _, key := range keys {
		batch = append(batch, unknown[key])
	}
	encoded, err := json.Marshal(batch)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert_contacts", sqldb.JSON("batch", encoded), named("now", sqldb.Text(at))); err != nil {
		return err
	}
	if err := readContacts(ctx, tx, keys, rows); err != nil {
		return err
	}
	for _, key := range keys {
		if rows[key] == nil {
			return fmt.Errorf("agent %q could not be read after its insert", key)
		}
		rows[key].isNew = rows[key].contact.Newest.ObservedAt.IsZero()
	}
	return nil
}

// write is one statement with its batch.
type write struct {
	statement string
	rows      [][]any
}

// writesOf turns what changed into statements. Their rows are in the order of AgentKey: replicas that write the same agents in
// different orders would wait for each other's locks.
func writesOf(rows map[string]*known) []write {
	var liveness, content, bindings, claims [][]any
	for _, row := range slices.SortedFunc(maps.Values(rows), func(a, b *known) int { return cmp.Compare(a.key, b.key) }) {
		c := row.contact
		if !row.changes.Any() {
			continue
		}
		liveness = append(liveness, []any{
			row.key, row.version, sqldb.NullText(c.LastBusAt), sqldb.NullText(c.LastDirectAt), c.Newest.BootID, c.Newest.Sequence,
			sqldb.NullText(c.Newest.ObservedAt), sqldb.NullText(c.Content.ReportedAt), listOrNull(c.EarlierBoots), c.Turns, sqldb.NullText(c.ConflictAt),
		})
		if row.changes.Content {
			content = append(content, []any{
				row.key, c.Content.ReportedName, c.Content.Hostname, c.Content.AgentVersion, sqldb.Null(c.Content.HTTPBaseURL), listOrNull(c.Content.Capabilities), spelling.Fold(c.Content.Hostname),
			})
		}
		if row.changes.Bindings {
			bindings = append(bindings, []any{
				row.key, json.RawMessage(c.Bindings), c.Content.BindingsCount, c.BindingsOrder.BootID, c.BindingsOrder.Sequence, sqldb.NullText(c.BindingsOrder.ObservedAt),
			})
		}
		if row.changes.Claim {
			claims = append(claims, []any{row.key, hexOrNull(c.TokenHash)})
		}
	}
	return []write{{"update_liveness", liveness}, {"update_content", content}, {"update_bindings", bindings}, {"claim_name", claims}}
}

// writeContacts writes what changed. A row that another replica changed since it was read fails the whole, which is run again.
func writeContacts(ctx context.Context, tx *sqldb.Tx, rows map[string]*known) error {
	for _, write := range writesOf(rows) {
		if len(write.rows) == 0 {
			continue
		}
		encoded, err := json.Marshal(write.rows)
		if err != nil {
			return err
		}
		changed, err := tx.Exec(ctx, write.statement, sqldb.JSON("batch", encoded))
		if err != nil {
			return err
		}
		if changed < int64(len(write.rows)) {
			return fmt.Errorf("%s: %d of %d rows: %w", write.statement, changed, len(write.rows), sqldb.ErrConflict)
		}
	}
	return nil
}

// hexOrNull is how bytes travel in a batch, which is text.
func hexOrNull(bytes []byte) any { return sqldb.Null(hex.EncodeToString(bytes)) }

// listOrNull is a list within a row of a batch: as JSON and not as a text that holds JSON, so that it is escaped once.
func listOrNull[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	return list
}
