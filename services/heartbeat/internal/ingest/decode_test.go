package ingest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

func TestDecode(t *testing.T) {
	whole := &agentv1.Heartbeat{Name: "Ä-1", Sequence: 1 << 60, IisBindings: &agentv1.IisBindings{Bindings: []*agentv1.IisBinding{{SiteName: "s"}}}}
	asJSON, err := protojson.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	asProto, err := proto.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		body        []byte
		contentType string
		want        *agentv1.Heartbeat
	}{
		"json":                {asJSON, "application/json", whole},
		"json, no type":       {asJSON, "", whole},
		"json, odd type":      {asJSON, "text/plain; charset=utf-8", whole},
		"json, broken type":   {asJSON, ";;;", whole},
		"protobuf":            {asProto, "application/protobuf", whole},
		"protobuf, x":         {asProto, "Application/X-Protobuf; v=1", whole},
		"unknown fields":      {[]byte(`{"name":"A","tomorrow":{"deep":[1,{"x":null}]}}`), "", &agentv1.Heartbeat{Name: "A"}},
		"proto field names":   {[]byte(`{"name":"A","boot_id":"b","sequence":3}`), "", &agentv1.Heartbeat{Name: "A", BootId: "b", Sequence: 3}},
		"no bindings known":   {[]byte(`{"name":"A","iisBindings":null}`), "", &agentv1.Heartbeat{Name: "A"}},
		"bindings are none":   {[]byte(`{"name":"A","iisBindings":{}}`), "", &agentv1.Heartbeat{Name: "A", IisBindings: &agentv1.IisBindings{}}},
		"no name: not for us": {[]byte(`{}`), "", &agentv1.Heartbeat{}},
	} {
		got, err := Decode(one.body, one.contentType)
		if err != nil || !proto.Equal(got, one.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestI17_UndecodableBodiesSayWhatIsWrong(t *testing.T) {
	for want, one := range map[string][2]string{
		"the body is empty":          {" \n", ""},
		"as JSON":                    {"hello", "application/json"},
		"name":                       {`{"name":7}`, ""},
		"sequence":                   {`{"name":"A","sequence":"many"}`, ""},
		"duplicate field":            {`{"name":"A","name":"B"}`, ""},
		"not a protobuf Heartbeat":   {"\xff\xff", "application/protobuf"},
		"invalid UTF-8":              {"\x0a\x01\xff", "application/protobuf"},
		"at most 4194304 are read":   {strings.Repeat(" ", MaxBodyBytes+1), ""},
		"invalid google.protobuf.Ti": {`{"name":"A","reportedAt":"yesterday"}`, ""},
	} {
		if got, err := Decode([]byte(one[0]), one[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"A","sequence":"3","iisBindings":{"bindings":[{"siteName":"s"}]},"capabilities":["X"]}`), false)
	f.Add([]byte(`{"name":"A","reportedAt":"2026-01-02T03:04:05.6Z","x":{"y":[[[]]]}}`), false)
	f.Add([]byte("\x0a\x01A\x28\x03"), true)
	f.Add([]byte("\xff"), false)
	f.Fuzz(func(t *testing.T, body []byte, binary bool) {
		contentType := ""
		if binary {
			contentType = protobufType
		}
		got, err := Decode(body, contentType)
		if err != nil {
			if got != nil || err.Error() == "" {
				t.Fatalf("%v with %v", got, err)
			}
			return
		}
		// What was read can be sent to the registry, and reads the same again.
		if !utf8.ValidString(got.GetName()) {
			t.Fatalf("name %q is not UTF-8", got.GetName())
		}
		wire, err := proto.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(wire) > 2*len(body)+64 {
			t.Fatalf("%d bytes became %d: calls are cut by the size of bodies", len(body), len(wire))
		}
		again, err := Decode(wire, protobufType)
		if err != nil || !proto.Equal(got, again) {
			t.Fatalf("%v, then %v, %v", got, again, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"name":"AGENT-000001","hostname":"host-000001.example.test","agentVersion":"4.2.0","bootId":"b-000001","sequence":"12","reportedAt":"2026-01-02T03:04:05.678901Z"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(body, jsonType); err != nil {
			b.Fatal(err)
		}
	}
}
