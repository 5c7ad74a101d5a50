package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

// cause is one cause of a partition, as it is stored.
type cause struct {
	Cause  cloud.Cause `json:"cause"`
	Server int64       `json:"server,omitempty"`
	Name   string      `json:"name,omitempty"`
	From   string      `json:"from,omitempty"`
	To     string      `json:"to,omitempty"`
	Actor  string      `json:"actor,omitempty"`
}

// eventLifetime is how long partition events are kept.
const eventLifetime = 30 * 24 * time.Hour

// writeEvent records a partition.
func writeEvent(ctx context.Context, tx *sqldb.Tx, event cloud.Event) error {
	var causes []cause
	for _, c := range event.Causes {
		causes = append(causes, cause(c))
	}
	encoded, err := json.Marshal(causes)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "insert_partition_event", named("epoch", event.Epoch), named("at", sqldb.Text(event.At)), sqldb.JSON("causes", encoded),
		named("agents", event.Agents), named("placed", event.Placed), named("primariesMoved", event.PrimariesMoved),
		named("secondariesMoved", event.SecondariesMoved))
	return err
}

// ForgetEvents deletes the partition events that are old.
func (c *Cloud) ForgetEvents(ctx context.Context) error {
	return c.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "forget_partition_events", named("before", sqldb.Text(at.Add(-eventLifetime))))
		return err
	})
}

// EventFilter chooses partition events; zero is no bound.
type EventFilter struct {
	StartAt, EndAt time.Time // StartAt is included, EndAt is not
	OldestFirst    bool
}

// Events reads a page, and where the next one begins (nil on the last).
func (c *Cloud) Events(ctx context.Context, filter EventFilter, limit int, after *Cursor) ([]cloud.Event, *Cursor, error) {
	if after == nil {
		after = &Cursor{}
	}
	var events []cloud.Event
	var next *Cursor
	statement := "partition_events"
	if filter.OldestFirst {
		statement = "partition_events_oldest"
	}
	err := c.db.Rows(ctx, statement, func(scan func(...any) error) error {
		event, err := scanEvent(scan)
		if len(events) == limit {
			next = &Cursor{Key: events[limit-1].Epoch}
			return err
		}
		events = append(events, event)
		return err
	}, named("startAt", sqldb.NullText(filter.StartAt)), named("endAt", sqldb.NullText(filter.EndAt)), named("afterEpoch", after.Key), named("limit", limit+1))
	return events, next, err
}

func scanEvent(scan func(...any) error) (cloud.Event, error) {
	var e cloud.Event
	var at sqldb.Time
	var encoded string
	if err := scan(&e.Epoch, &at, &encoded, &e.Agents, &e.Placed, &e.PrimariesMoved, &e.SecondariesMoved); err != nil {
		return e, err
	}
	e.At = at.Time
	var causes []cause
	err := json.Unmarshal([]byte(encoded), &causes)
	for _, c := range causes {
		e.Causes = append(e.Causes, cloud.Change(c))
	}
	return e, err
}
