package grpcclient

import (
	"time"

	"google.golang.org/grpc/backoff"
)

// reconnectBackoff reconnects quickly: calls fail while there is no connection, and agents' commands wait for it.
var reconnectBackoff = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}
