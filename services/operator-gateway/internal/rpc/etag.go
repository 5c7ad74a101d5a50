package rpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// IfMatch is the metadata key under which REST passes the If-Match header on.
const IfMatch = "if-match"

// noEtag stands for an empty entity tag, which matches nothing: no etag of ours looks so.
const noEtag = `""`

// etag is the etag of a change: the request's own field, or over REST the first of the If-Match header. Empty if neither is there; the
// service that is asked then answers ETAG_REQUIRED, or that there is nothing to change.
func etag(ctx context.Context, field string) (string, error) {
	tags, err := ifMatch(ctx)
	switch {
	case err != nil:
		return "", err
	case len(tags) == 0:
		return field, nil
	case field == "":
		return tags[0], nil
	case !slices.Contains(tags, field):
		return "", fault.Invalid("/etag", "differs from the If-Match header")
	}
	return field, nil
}

// ifMatch are the etags of the If-Match header; none where there is no header.
func ifMatch(ctx context.Context) ([]string, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	return parseIfMatch(incoming.Get(IfMatch))
}

// parseIfMatch reads entity tags, quoted or not. Weak ones are taken too: proxies that compress mark tags so.
func parseIfMatch(values []string) ([]string, error) {
	rest := strings.TrimSpace(strings.Join(values, ","))
	if rest == "*" {
		return nil, fault.New(fault.EtagRequired, "If-Match: * would overwrite whatever is there; send the etag you read. Nothing was changed")
	}
	var tags []string
	for rest != "" {
		if rest[0] == ',' || rest[0] == ' ' || rest[0] == '\t' {
			rest = rest[1:]
			continue
		}
		tag, remaining, err := nextTag(strings.TrimPrefix(rest, "W/"))
		if err != nil {
			return nil, err
		}
		tags, rest = append(tags, tag), remaining
	}
	return tags, nil
}

// nextTag takes one tag off a list.
func nextTag(list string) (tag, rest string, err error) {
	if unquoted, quoted := strings.CutPrefix(list, `"`); quoted {
		tag, rest, ended := strings.Cut(unquoted, `"`)
		switch {
		case !ended:
			return "", "", fault.Invalid("#/If-Match", "ends without the quote that its last etag begins with")
		case rest != "" && !strings.HasPrefix(strings.TrimSpace(rest), ","):
			return "", "", fault.Invalid("#/If-Match", "has something behind an etag that is no comma")
		case tag == "":
			return noEtag, rest, nil
		}
		return tag, rest, nil
	}
	tag, rest, _ = strings.Cut(list, ",")
	if tag = strings.TrimSpace(tag); tag == "*" || strings.ContainsAny(tag, "\" ") || tag == "" {
		return "", "", fault.Invalid("#/If-Match", "must be etags in quotes, separated by commas")
	}
	return tag, rest, nil
}

// otherEtag prepares a change for being asked once more, where it was refused because of its etag and the present one is another that
// the caller would have taken, too. A refusal of an etag changes nothing.
func otherEtag(ctx context.Context, request proto.Message, err error) bool {
	found := fault.From(err)
	if found == nil || found.Reason != fault.StaleEtag || found.CurrentEtag == "" {
		return false
	}
	tags, unreadable := ifMatch(ctx)
	field := request.ProtoReflect().Descriptor().Fields().ByName("etag")
	if unreadable != nil || field == nil || !slices.Contains(tags, found.CurrentEtag) || request.ProtoReflect().Get(field).String() == found.CurrentEtag {
		return false
	}
	changed := request.ProtoReflect()
	changed.Set(field, protoreflect.ValueOfString(found.CurrentEtag))
	return true
}
