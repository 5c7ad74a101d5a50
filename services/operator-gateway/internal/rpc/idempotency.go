package rpc

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/metadata"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// IdempotencyKey is the metadata key under which a caller names the command or the window it asks for; REST passes the Idempotency-Key
// header on under it.
const IdempotencyKey = "idempotency-key"

// idempotencyKey is the id that the caller chose for what it asks for, so that asking again does not do it again; empty: none.
func idempotencyKey(ctx context.Context) (string, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	keys := incoming.Get(IdempotencyKey)
	if len(keys) == 0 {
		return "", nil
	}
	// uuid also parses forms with braces or a prefix, which differ for one id.
	if id, err := uuid.Parse(keys[0]); err == nil && len(keys) == 1 && len(keys[0]) == len(id.String()) {
		return id.String(), nil
	}
	return "", fault.Invalid("#/Idempotency-Key", "must be one UUID, is %q", strings.Join(keys, ", "))
}
