package agent

import (
	"errors"
	"fmt"
	"mime"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// encoding is one of the two forms that messages have on every transport. Its value is the content type.
type encoding string

const (
	jsonEncoding     encoding = "application/json"
	protobufEncoding encoding = "application/protobuf"
)

// encodingOf reads a content type; known is false for one that is neither of the two, or none.
func encodingOf(contentType string) (e encoding, known bool) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return jsonEncoding, false
	}
	switch e := encoding(media); e {
	case jsonEncoding, protobufEncoding:
		return e, true
	}
	return jsonEncoding, false
}

func (e encoding) marshal(m proto.Message) ([]byte, error) {
	if e == protobufEncoding {
		return proto.Marshal(m)
	}
	return protojson.Marshal(m)
}

// unmarshal ignores fields that it does not know: they belong to newer versions.
func (e encoding) unmarshal(body []byte, m proto.Message) error {
	if e == protobufEncoding {
		return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
}

// decodeCommand reads a command as it came in.
func decodeCommand(e encoding, body []byte) (*agentv1.Command, error) {
	if len(body) == 0 {
		return nil, errors.New("the body is empty; a Command is required")
	}
	cmd := &agentv1.Command{}
	if err := e.unmarshal(body, cmd); err != nil {
		return nil, fmt.Errorf("the body is not a Command in %s: %w", e, err)
	}
	return cmd, nil
}
