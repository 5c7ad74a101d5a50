package ingest

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const protobufType = "application/protobuf"

var readJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

// Decode reads a heartbeat's body by its content type: protobuf where that is said, JSON otherwise. Unknown fields are
// accepted, so that newer agents are heard too.
func Decode(body []byte, contentType string) (*agentv1.Heartbeat, error) {
	heartbeat := &agentv1.Heartbeat{}
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && (strings.EqualFold(kind, protobufType) || strings.EqualFold(kind, "application/x-protobuf")) {
		if err := proto.Unmarshal(body, heartbeat); err != nil {
			return nil, fmt.Errorf("the body is not a protobuf Heartbeat: %w", err)
		}
		return heartbeat, nil
	}
	if len(body) == 0 {
		return nil, errors.New("the body is empty; expected a Heartbeat as JSON")
	}
	if err := readJSON.Unmarshal(body, heartbeat); err != nil {
		return nil, fmt.Errorf("the body is not a Heartbeat as JSON: %w", err)
	}
	return heartbeat, nil
}
