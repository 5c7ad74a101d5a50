package rpc

import (
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestTheCallersKeyIsTheCommandsID(t *testing.T) {
	const id = "6f1c1a52-0b3e-4f0a-9d57-1c2e3f4a5b6c"
	for _, row := range []struct {
		keys []string
		want string
		bad  bool
	}{
		{nil, "", false},
		{[]string{id}, id, false},
		{[]string{"6F1C1A52-0B3E-4F0A-9D57-1C2E3F4A5B6C"}, id, false},
		{[]string{id, id}, "", true},
		{[]string{""}, "", true},
		{[]string{"{" + id + "}"}, "", true},
		{[]string{"urn:uuid:" + id}, "", true},
		{[]string{"order-17"}, "", true},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{IdempotencyKey: row.keys})
		got, err := idempotencyKey(ctx)
		found := fault.From(err)
		if got != row.want || (found != nil) != row.bad || row.bad && (found.Reason != fault.InvalidArgument || found.Fields[0].Pointer != "#/Idempotency-Key") {
			t.Errorf("%q: %q, %v", row.keys, got, err)
		}
	}
}
