package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// IfMatch is the metadata key under which REST passes the If-Match header on.
const IfMatch = "if-match"

// etag is the etag of a change: the request's own field, or over REST the If-Match header. Empty if neither is there; the
// service that is asked then answers ETAG_REQUIRED, or that there is nothing to change.
func etag(ctx context.Context, field string) (string, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	header, err := parseIfMatch(incoming.Get(IfMatch))
	switch {
	case err != nil:
		return "", err
	case field == "":
		return header, nil
	case header != "" && field != header:
		return "", fault.Invalid("/etag", "differs from the If-Match header")
	}
	return field, nil
}

// parseIfMatch reads one entity tag, quoted or not. A weak one is taken too: proxies that compress mark tags so.
func parseIfMatch(values []string) (string, error) {
	header := strings.TrimSpace(strings.Join(values, ","))
	if header == "*" {
		return "", fault.New(fault.EtagRequired, "If-Match: * would overwrite whatever is there; send the etag you read. Nothing was changed")
	}
	tag := strings.TrimPrefix(header, "W/")
	if unquoted, ok := strings.CutPrefix(tag, `"`); ok {
		tag, ok = strings.CutSuffix(unquoted, `"`)
		if !ok {
			return "", fault.Invalid("#/If-Match", "ends without the quote it begins with")
		}
	}
	if strings.ContainsAny(tag, `",`) {
		return "", fault.Invalid("#/If-Match", "must hold one etag, not a list")
	}
	return tag, nil
}
