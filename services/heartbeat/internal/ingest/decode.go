package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
	// MaxBodyBytes is far more than the largest heartbeat that keeps all rules, and leaves it alone in a call if need be.
	MaxBodyBytes = 4 << 20
)

var (
	readJSON     = protojson.UnmarshalOptions{DiscardUnknown: true}
	readProtobuf = proto.UnmarshalOptions{DiscardUnknown: true}
)

// Decode reads a heartbeat's body by its content type: protobuf where that is said, JSON otherwise. Unknown fields are
// accepted, so that newer agents are heard too. Whether the fields keep their rules is the registry's to say.
func Decode(body []byte, contentType string) (*agentv1.Heartbeat, error) {
	if len(body) > MaxBodyBytes {
		return nil, fmt.Errorf("the body has %d bytes; at most %d are read", len(body), MaxBodyBytes)
	}
	heartbeat := &agentv1.Heartbeat{}
	if isProtobuf(contentType) {
		if err := readProtobuf.Unmarshal(body, heartbeat); err != nil {
			return nil, fmt.Errorf("the body is not a protobuf Heartbeat: %w", err)
		}
		return heartbeat, nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, errors.New("the body is empty; expected a Heartbeat as JSON")
	}
	if err := readJSON.Unmarshal(body, heartbeat); err != nil {
		return nil, fmt.Errorf("the body is not a Heartbeat as JSON: %w", err)
	}
	return heartbeat, nil
}

// isProtobuf reads a content type. What is none, or none we know, is taken for JSON.
func isProtobuf(contentType string) bool {
	if contentType == "" || contentType == jsonType {
		return false
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.EqualFold(kind, protobufType) || strings.EqualFold(kind, "application/x-protobuf"))
}
