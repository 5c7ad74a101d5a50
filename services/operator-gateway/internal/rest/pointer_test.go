package rest

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

func TestPointerAt(t *testing.T) {
	body := "{\"a\": [1, {\"b/~\": true}],\n \"ä\": \"ö\", \"c\": {\"d\": null}}"
	for at, want := range map[string]string{
		`{"a"`: "", `"a": [`: "/a", `[1`: "/a", `1,`: "/a/0", `{"b`: "/a/1", `"b/~"`: "/a/1/b~1~0", `true`: "/a/1/b~1~0",
		`"ä"`: "/ä", `"ö"`: "/ä", `"c"`: "/c", `"d"`: "/c/d", `null`: "/c/d",
	} {
		line, column := lineAndColumn(body, strings.Index(body, at))
		if got := pointerAt([]byte(body), line, column); got != want {
			t.Errorf("at %s (line %d:%d): %q, not %q", at, line, column, got, want)
		}
	}
	for _, nowhere := range [][2]int{{9, 1}, {1, 999}, {0, 0}, {-1, -1}, {2, 999}} {
		pointerAt([]byte(body), nowhere[0], nowhere[1]) // must end, and not panic
	}
}

// lineAndColumn counts as protojson does: both from 1, columns in characters.
func lineAndColumn(body string, offset int) (line, column int) {
	before := body[:offset]
	return strings.Count(before, "\n") + 1, len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
}

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
		if !json.Valid(body) {
			found := badBody(pointerToBreak(body), "is not JSON")
			checkPointerShape(t, found.Fields[0].Pointer)
			return
		}
		err := protojson.Unmarshal(body, &operatorv1.AcceptAgentRequest{})
		if err == nil {
			return
		}
		found := pointed(body, fault.New(fault.InvalidArgument, "%s", err.Error()))
		if found.Reason != fault.InvalidArgument || len(found.Fields) != 1 || strings.Contains(found.Detail, "\u00a0") {
			t.Fatalf("%q: %v", body, found)
		}
		if pointer := found.Fields[0].Pointer; !resolves(body, pointer) {
			t.Errorf("%q: %v: nothing is at %q", body, err, pointer)
		}
	})
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
