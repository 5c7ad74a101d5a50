package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// Etag is a hash of what an operator's order is about: the present mass, and the order there is.
func (p Path) Etag() string {
	encoded, _ := json.Marshal([]any{sqldb.NullText(p.State.Brake.Since), p.State.Brake.Order, sqldb.NullText(p.OrderedAt)}) // cannot fail: texts and a number
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:12])
}

func readPaths(ctx context.Context, from reader) (verdict.PerPath[Path], error) {
	var paths verdict.PerPath[Path]
	err := from.Rows(ctx, "paths", func(scan func(...any) error) error {
		var index, proofs, order, braked, online, silent, held, ahead, within sqldb.Int
		var frozen, since, judged, orderedAt, starting sqldb.Time
		var orderedBy, blind sqldb.String
		err := scan(&index, &frozen, &since, &proofs, &judged, &order, &orderedBy, &orderedAt, &blind, &braked, &online, &silent, &held, &ahead, &within, &starting)
		if err != nil {
			return err
		}
		if index < 0 || int(index) >= len(paths) {
			return fmt.Errorf("TblAvailabilityPath has a row of an unknown path %d", index)
		}
		paths[index] = Path{
			State: verdict.PathState{
				FrozenSince: frozen.Time,
				Brake:       verdict.Brake{Since: since.Time, Proofs: int(proofs), JudgedAt: judged.Time, Order: verdict.Order(order)},
			},
			Blind: verdict.Blindness(blind), Braked: braked == 1, Crowd: verdict.Crowd{Online: int(online), Silent: int(silent)}, Held: int(held),
			OrderedBy: string(orderedBy), OrderedAt: orderedAt.Time, StartingUntil: starting.Time,
			Broker: verdict.Skew{Ahead: time.Duration(ahead) * time.Millisecond, Within: time.Duration(within) * time.Millisecond},
		}
		return nil
	})
	return paths, err
}

// ErrNothingBraked says that there is no mass of silent servers to apply an order to.
var ErrNothingBraked = errors.New("the path's brake is released: no mass of silent servers is held")

// OrderBrake stores an operator's order about a path's brake; the next sweep obeys it. NoOrder takes an order back.
func (s *Store) OrderBrake(ctx context.Context, path verdict.Path, order verdict.Order, etag, actor string) (Path, error) {
	var ordered Path
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := act(ctx, tx)
		if err != nil {
			return err
		}
		paths, err := readPaths(ctx, tx)
		if err != nil {
			return err
		}
		ordered = paths[path]
		if err := checkEtag(etag, ordered.Etag()); err != nil {
			return err
		}
		if order == verdict.Apply && ordered.State.Brake.Since.IsZero() {
			return ErrNothingBraked // what an operator applies is a mass that was seen
		}
		ordered.State.Brake.Order, ordered.OrderedBy, ordered.OrderedAt = order, actor, at
		if order == verdict.NoOrder {
			ordered.OrderedBy, ordered.OrderedAt = "", time.Time{}
		}
		_, err = tx.Exec(ctx, "order_brake", named("path", int(path)), named("order", int(order)),
			named("orderedBy", sqldb.Null(ordered.OrderedBy)), named("orderedAt", sqldb.NullText(ordered.OrderedAt)))
		return err
	})
	return ordered, err
}
