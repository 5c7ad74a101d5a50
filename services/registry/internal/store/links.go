package store

import (
	"context"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// moveLink remembers which agent a server had: one whose agent is gone is unavailable, while one that never had any is left alone. It
// runs in the transaction that moved the link, after that: only whoever moved it from that server notes that it ended, and a server
// that can be linked again has its note already. Zero is no server. Where a server is linked, its link is what counts.
func moveLink(ctx context.Context, tx *sqldb.Tx, agent string, from, to int64) error {
	if from == to {
		return nil
	}
	if err := forgetFormerLink(ctx, tx, to); err != nil || from == 0 {
		return err
	}
	// A release that knew no such notes may have linked this server and left an older one.
	if err := forgetFormerLink(ctx, tx, from); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "insert_former_link", named("serverKey", from), named("agent", agent))
	return err
}

func forgetFormerLink(ctx context.Context, tx *sqldb.Tx, serverKey int64) error {
	_, err := tx.Exec(ctx, "forget_former_link", named("serverKey", serverKey))
	return err
}
