package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// IfMatch is the metadata key under which REST passes the If-Match header on.
const IfMatch = "if-match"

// etag is the etag of a change: the request's own field, or over REST the If-Match header.
func etag(ctx context.Context, field string) (string, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	header := ""
	if values := incoming.Get(IfMatch); len(values) > 0 {
		header = strings.TrimSpace(values[0])
	}
	if header == "*" {
		return "", fault.New(fault.EtagRequired, "If-Match: * would overwrite whatever is there; send the etag you read. Nothing was changed")
	}
	header = strings.Trim(strings.TrimPrefix(header, "W/"), `"`)
	if field != "" && header != "" && field != header {
		return "", fault.Invalid("/etag", "differs from the If-Match header")
	}
	if field == "" {
		field = header
	}
	return field, nil
}
