package restserver

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestPointerToBreak(t *testing.T) {
	for body, want := range map[string]string{
		``: "", `{`: "", `{"a"`: "/a", `{"a":`: "/a", `{"a": 1,`: "", `{"a": 1 "b": 2}`: "", `{"a": x}`: "/a", `{"a": [1, 2,, 3]}`: "/a/2", `{"a": {"b": }}`: "/a/b",
		`[1, {]`: "/1", `{} x`: "", `{"a": 1} {"b": x}`: "", `{a: 1}`: "", `{"a": "unended`: "/a", `{"a": {"b": 1]`: "/a", `nul`: "",
	} {
		if json.Valid([]byte(body)) {
			t.Fatalf("%s is JSON", body)
		}
		if got := pointerToBreak([]byte(body)); got != want {
			t.Errorf("%s: %q, not %q", body, got, want)
		}
	}
}

// FuzzPointer reads bodies as the gateway does: whatever is wrong with one, the pointer leads to something that is there.
func FuzzPointer(f *testing.F) {
	for _, seed := range []string{
		`{"etag": "e", "createServer": {"url": 1}}`, `{"createServer": {"url": "x", "y": []}}`, `{"serverName": "\ud800"}`, `[`, `{"a":`, `{"": {"": 1}}`,
		"{\"etag\":\n\n \"\xff\"}", `{"etag":"a","etag":"b"}`, `{"a/b~c": {"~1": 1}}`, "\u00a0{}", `{"createServer": null, "server_name": {}}`, `0`, `"x"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if found := checkSyntax(body); found != nil {
			checkPointerShape(t, found.Fields[0].Pointer)
			return
		}
		message := (&operatorv1.AcceptAgentRequest{}).ProtoReflect().Descriptor()
		read, found := ReadMessage(body, message, nil, false)
		if found == nil {
			if err := protojson.Unmarshal(orEmpty(read.Body), &operatorv1.AcceptAgentRequest{}); err != nil {
				t.Errorf("%q was let pass, and is refused later: %v", body, err)
			}
			return
		}
		if found.Reason != fault.InvalidArgument || len(found.Fields) != 1 || strings.Contains(found.Detail, "\u00a0") {
			t.Fatalf("%q: %v", body, found)
		}
		if pointer := found.Fields[0].Pointer; !resolves(body, pointer) {
			t.Errorf("%q: %v: nothing is at %q", body, found, pointer)
		}
	})
}

func orEmpty(body []byte) []byte {
	if body == nil {
		return []byte("{}")
	}
	return body
}

func checkPointerShape(t *testing.T, pointer string) {
	if pointer != "" && pointer[0] != '/' {
		t.Errorf("%q is no JSON pointer", pointer)
	}
}

// resolves follows a pointer by RFC 6901. Names are compared as the JSON reader has them, with invalid UTF-8 replaced.
func resolves(body []byte, pointer string) bool {
	if pointer == "" {
		return true
	}
	if pointer[0] != '/' {
		return false
	}
	at := json.RawMessage(body)
	for _, step := range strings.Split(pointer[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch trimmed := bytes.TrimSpace(at); {
		case len(trimmed) == 0:
			return false
		case trimmed[0] == '{':
			var fields map[string]json.RawMessage
			if json.Unmarshal(trimmed, &fields) != nil {
				return false
			}
			value, ok := fields[step]
			if !ok {
				return false
			}
			at = value
		case trimmed[0] == '[':
			var items []json.RawMessage
			index, err := strconv.Atoi(step)
			if err != nil || json.Unmarshal(trimmed, &items) != nil || index >= len(items) {
				return false
			}
			at = items[index]
		default:
			return false
		}
	}
	return true
}
