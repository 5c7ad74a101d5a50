package rpc

import (
	"testing"

	"google.golang.org/grpc/metadata"

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
		{"", []string{`"7-1", "7-2"`}, "", fault.InvalidArgument},
		{"", []string{`"7-1"`, `"7-2"`}, "", fault.InvalidArgument},
		{"", []string{`"7-1`}, "", fault.InvalidArgument},
		{"", []string{`""`}, "", ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{IfMatch: row.header})
		got, err := etag(ctx, row.field)
		if found := fault.From(err); got != row.want || (found == nil) != (row.reason == "") || (found != nil && found.Reason != row.reason) {
			t.Errorf("%q and If-Match %q: %q, %v", row.field, row.header, got, err)
		}
	}
}
