package rpc

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestEtagOfAChange(t *testing.T) {
	for _, row := range []struct {
		field  string
		header []string
		want   string
		reason fault.Reason
	}{
		{"", nil, "", ""},
		{"7-1", nil, "7-1", ""},
		{"", []string{`"7-1"`}, "7-1", ""},
		{"", []string{"7-1"}, "7-1", ""},
		{"", []string{`W/"7-1"`}, "7-1", ""},
		{"", []string{` "7-1" `}, "7-1", ""},
		{"7-1", []string{`"7-1"`}, "7-1", ""},
		{"7-1", []string{`"7-2"`}, "", fault.InvalidArgument},
		{"", []string{"*"}, "", fault.EtagRequired},
		{"7-1", []string{"*"}, "", fault.EtagRequired},
		{"", []string{`"7-1", "7-2"`}, "7-1", ""},
		{"", []string{`"7-1"`, `W/"7-2"`}, "7-1", ""},
		{"", []string{`7-1,7-2`}, "7-1", ""},
		{"", []string{`, "7-1" ,, "7-2",`}, "7-1", ""},
		{"7-2", []string{`"7-1", "7-2"`}, "7-2", ""},
		{"7-3", []string{`"7-1", "7-2"`}, "", fault.InvalidArgument},
		{"", []string{`"7-1`}, "", fault.InvalidArgument},
		{"", []string{`"7-1" "7-2"`}, "", fault.InvalidArgument},
		{"", []string{`"7-1", *`}, "", fault.InvalidArgument},
		{"", []string{`W/`}, "", fault.InvalidArgument},
		{"", []string{`7 1`}, "", fault.InvalidArgument},
		{"", []string{`""`}, noEtag, ""},
		{"", []string{`W/"", "7-1"`}, noEtag, ""},
		{"7-1", []string{`""`}, "", fault.InvalidArgument},
		{"7-1", []string{` `}, "7-1", ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{IfMatch: row.header})
		got, err := etag(ctx, row.field)
		if found := fault.From(err); got != row.want || (found == nil) != (row.reason == "") || (found != nil && found.Reason != row.reason) {
			t.Errorf("%q and If-Match %q: %q, %v", row.field, row.header, got, err)
		}
	}
}

// Of several etags the one that is present makes the change, whatever its place; without it the change is refused once.
func TestAListOfEtagsMatchesIfOneDoes(t *testing.T) {
	for header, want := range map[string]struct {
		asked []string
		stale bool
	}{
		`"now"`:                  {[]string{"now"}, false},
		`"old", "now"`:           {[]string{"old", "now"}, false},
		`"old", W/"now", "next"`: {[]string{"old", "now"}, false},
		`"", "now"`:              {[]string{noEtag, "now"}, false},
		`"old", "older"`:         {[]string{"old"}, true},
		`""`:                     {[]string{noEtag}, true},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(IfMatch, header))
		first, err := etag(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		var asked []string
		_, err = change(ctx, act{logger: slog.New(slog.DiscardHandler), by: registryService, does: "reject agent"},
			func(_ context.Context, request *registryv1.RejectAgentRequest, _ ...grpc.CallOption) (*registryv1.RejectAgentResponse, error) {
				asked = append(asked, request.GetEtag())
				if request.GetEtag() != "now" {
					return nil, fault.New(fault.StaleEtag, "changed meanwhile").WithEtag("now").GRPCStatus().Err()
				}
				return &registryv1.RejectAgentResponse{}, nil
			}, &registryv1.RejectAgentRequest{Etag: first})
		if found := fault.From(err); !slices.Equal(asked, want.asked) || (found != nil) != want.stale || (found != nil && found.CurrentEtag != "now") {
			t.Errorf("%s: asked %q, %v", header, asked, err)
		}
	}
}
