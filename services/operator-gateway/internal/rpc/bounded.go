package rpc

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
)

const (
	// readTimeout bounds each read of a service of ours: a service that hangs is told of like one that is down, and not after half a minute.
	// With the verdicts, which a list of agents waits for afterwards, no read takes longer than 5 s.
	readTimeout = 4 * time.Second
	// snapshotTimeout bounds the time to the first event of a watch.
	snapshotTimeout = 5 * time.Second
)

// Bounded is a connection on which each read ends within 4 s. Changes end when change says so: what becomes of one must be waited for.
type Bounded struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (b Bounded) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	if isRead(method) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readTimeout)
		defer cancel()
	}
	return b.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
}

// isRead reports whether a method changes nothing that an operator decides. What a ping showed is recorded again by the next one, and
// what was claimed for a ping that did not come is free again later.
func isRead(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	for _, verb := range []string{"Get", "List", "Preview", "Read", "Count", "ClaimHttpVerifications", "RecordHttpVerification"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return false
}
