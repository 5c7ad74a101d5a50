package enrollment

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

func bindingsOf(count int, change func(*agentv1.IisBinding)) *agentv1.IisBindings {
	list := &agentv1.IisBindings{}
	for range count {
		binding := &agentv1.IisBinding{SiteName: "Default", SiteState: "Started", Protocol: "https", BindingInformation: "*:443:"}
		if change != nil {
			change(binding)
		}
		list.Bindings = append(list.Bindings, binding)
	}
	return list
}

// atLimit returns heartbeats with one field just within its rule, or just outside.
func atLimit(over int) map[string]*agentv1.Heartbeat {
	text := func(most int) string { return strings.Repeat("é", most+over) }
	capabilities := make([]string, maxCapabilities+over)
	return map[string]*agentv1.Heartbeat{
		"heartbeat.name":                  {Name: text(MaxNameLength)},
		"heartbeat.hostname":              {Name: "a", Hostname: text(maxHostname)},
		"heartbeat.agent_version":         {Name: "a", AgentVersion: text(maxVersion)},
		"heartbeat.boot_id":               {Name: "a", BootId: text(maxBootID)},
		"heartbeat.http_base_url":         {Name: "a", HttpBaseUrl: text(maxURL)},
		"heartbeat.sequence":              {Name: "a", Sequence: int64(-over)},
		"heartbeat.capabilities":          {Name: "a", Capabilities: capabilities},
		"heartbeat.capabilities[1]":       {Name: "a", Capabilities: []string{"", text(maxCapability)}},
		"heartbeat.iis_bindings.bindings": {Name: "a", IisBindings: bindingsOf(maxBindings+over, nil)},
		"heartbeat.iis_bindings.bindings[1].site_name": {Name: "a", IisBindings: &agentv1.IisBindings{
			Bindings: []*agentv1.IisBinding{{}, {SiteName: text(bindingLimits.site)}},
		}},
		"heartbeat.iis_bindings.bindings[0].site_state": {Name: "a", IisBindings: bindingsOf(1, func(b *agentv1.IisBinding) { b.SiteState = text(bindingLimits.state) })},
		"heartbeat.iis_bindings.bindings[0].protocol":   {Name: "a", IisBindings: bindingsOf(1, func(b *agentv1.IisBinding) { b.Protocol = text(bindingLimits.protocol) })},
		"heartbeat.iis_bindings.bindings[0].binding_information": {Name: "a", IisBindings: bindingsOf(1, func(b *agentv1.IisBinding) {
			b.BindingInformation = text(bindingLimits.information)
		})},
		"heartbeat.iis_bindings.bindings[0].certificate_thumbprint": {Name: "a", IisBindings: bindingsOf(1, func(b *agentv1.IisBinding) {
			b.CertificateThumbprint = text(bindingLimits.thumbprint)
		})},
	}
}

func TestI17_HeartbeatsAreCheckedAsAgentProtoSays(t *testing.T) {
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	for field, message := range atLimit(0) {
		if err := validator.Validate(message); err != nil {
			t.Errorf("%s at its limit: agent.proto refuses it: %v", field, err)
		}
		if _, invalid := CheckHeartbeat(message, Bus, timestamppb.Now()); invalid != nil {
			t.Errorf("%s at its limit: %v", field, invalid)
		}
	}
	for field, message := range atLimit(1) {
		if err := validator.Validate(message); err == nil {
			t.Errorf("%s beyond its limit: agent.proto takes it", field)
		}
		if _, invalid := CheckHeartbeat(message, Bus, timestamppb.Now()); invalid == nil || invalid.Field != field {
			t.Errorf("%s beyond its limit: %v", field, invalid)
		}
	}
	for _, name := range []string{"", "a\x00b", "a\nb", "a\u0085b"} {
		message := &agentv1.Heartbeat{Name: name}
		if err := validator.Validate(message); err == nil {
			t.Errorf("agent.proto takes the name %q", name)
		}
		if _, invalid := CheckHeartbeat(message, Bus, timestamppb.Now()); invalid == nil || invalid.Field != "heartbeat.name" {
			t.Errorf("the name %q: %v", name, invalid)
		}
	}
}

// A limit added to agent.proto must not be forgotten here: every field of a heartbeat is in the test above, or has no rule.
func TestI17_NoFieldOfAHeartbeatIsForgotten(t *testing.T) {
	tested := map[string]bool{"reported_at": true, "iis_bindings": true, "ssl_flags": true} // those without a rule of their own
	for path := range atLimit(0) {
		last := path[strings.LastIndex(path, ".")+1:]
		tested[strings.SplitN(last, "[", 2)[0]] = true
	}
	for _, message := range []proto.Message{&agentv1.Heartbeat{}, &agentv1.IisBindings{}, &agentv1.IisBinding{}} {
		fields := message.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if name := string(fields.Get(i).Name()); !tested[name] {
				t.Errorf("%s has the field %s, which no test holds to its rule", message.ProtoReflect().Descriptor().Name(), name)
			}
		}
	}
}

func TestI17_WhatTheControlPlaneSawIsCheckedToo(t *testing.T) {
	good := &agentv1.Heartbeat{Name: "a"}
	for field, check := range map[string]func() *InvalidError{
		"heartbeat":   func() *InvalidError { _, e := CheckHeartbeat(nil, Bus, timestamppb.Now()); return e },
		"path":        func() *InvalidError { _, e := CheckHeartbeat(good, 0, timestamppb.Now()); return e },
		"observed_at": func() *InvalidError { _, e := CheckHeartbeat(good, Bus, nil); return e },
	} {
		if invalid := check(); invalid == nil || invalid.Field != field || invalid.Rule == "" {
			t.Errorf("%s: %v", field, invalid)
		}
	}
}

func TestBindingsNotReportedDifferFromNone(t *testing.T) {
	silent, invalid := CheckHeartbeat(&agentv1.Heartbeat{Name: "a"}, Bus, timestamppb.Now())
	if invalid != nil || silent.Bindings != nil {
		t.Fatalf("absent: %q, %v", silent.Bindings, invalid)
	}
	none, invalid := CheckHeartbeat(&agentv1.Heartbeat{Name: "a", IisBindings: &agentv1.IisBindings{}}, Bus, timestamppb.Now())
	if invalid != nil || string(none.Bindings) != "[]" {
		t.Fatalf("empty: %q, %v", none.Bindings, invalid)
	}
	two, invalid := CheckHeartbeat(&agentv1.Heartbeat{Name: "a", IisBindings: bindingsOf(2, nil)}, Direct, timestamppb.Now())
	var read []Binding
	if err := json.Unmarshal(two.Bindings, &read); invalid != nil || err != nil || len(read) != 2 || read[0].Information != "*:443:" || two.Content.BindingsCount != 2 {
		t.Fatalf("two: %q, %v, %v", two.Bindings, invalid, err)
	}
}

func FuzzCheckHeartbeat(f *testing.F) {
	validator, err := protovalidate.New()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"name":"BM-1","bootId":"a","sequence":"3","iisBindings":{"bindings":[{"siteName":"S","bindingInformation":"*:80:"}]}}`,
		`{"name":" x ","hostname":"h","capabilities":["A"]}`, `{"name":""}`, `{"sequence":-1,"name":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	observedAt := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	f.Fuzz(func(t *testing.T, body []byte) {
		message := &agentv1.Heartbeat{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, message) != nil {
			return
		}
		heartbeat, invalid := CheckHeartbeat(message, Bus, observedAt)
		if invalid != nil {
			if invalid.Field == "" || invalid.Rule == "" {
				t.Fatalf("a refusal without its field or rule: %+v", invalid)
			}
			return
		}
		if heartbeat.Name.Key == "" || (heartbeat.Bindings != nil && !json.Valid(heartbeat.Bindings)) {
			t.Fatalf("taken as %+v", heartbeat)
		}
		// Names may be padded, which agent.proto cannot say; apart from that whatever is taken keeps its rules.
		message.Name = heartbeat.Name.Spelling
		if err := validator.Validate(message); err != nil {
			t.Fatalf("taken against agent.proto: %v", err)
		}
	})
}

// Bindings' texts are shown in lists and logs as capabilities are: with no character that is not seen, or turns the text around.
func TestI17_BindingsAreStoredAsTheyMayBeShown(t *testing.T) {
	bad := "a\u202eb\nc"
	message := &agentv1.Heartbeat{Name: "a", IisBindings: bindingsOf(2, func(b *agentv1.IisBinding) {
		b.SiteName, b.SiteState, b.Protocol, b.BindingInformation, b.CertificateThumbprint = bad, bad, bad, bad, bad
	})}
	heartbeat, invalid := CheckHeartbeat(message, Bus, timestamppb.New(at(0)))
	if invalid != nil || heartbeat.OnlyKnown != nil {
		t.Fatal(invalid, heartbeat.OnlyKnown)
	}
	var stored []Binding
	if err := json.Unmarshal(heartbeat.Bindings, &stored); err != nil || len(stored) != 2 {
		t.Fatal(stored, err)
	}
	shown := "a\ufffdb\ufffdc"
	if want := (Binding{Site: shown, State: shown, Protocol: shown, Information: shown, Thumbprint: shown}); stored[1] != want {
		t.Errorf("%+q", stored[1])
	}
}
