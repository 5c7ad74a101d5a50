package amqp

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"
)

var at = time.UnixMilli(1_900_000_000_123).UTC()

// Known encodings, from part 1 of the specification.
func TestKnownBytes(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "40"},
		{true, "41"},
		{false, "42"},
		{uint8(255), "50ff"},
		{uint16(258), "600102"},
		{uint32(0), "43"},
		{uint32(255), "52ff"},
		{uint32(256), "7000000100"},
		{uint64(0), "44"},
		{uint64(255), "53ff"},
		{uint64(256), "800000000000000100"},
		{int8(-1), "51ff"},
		{int16(-2), "61fffe"},
		{int32(-1), "54ff"},
		{int32(200), "71000000c8"},
		{int64(-128), "5580"},
		{int64(-129), "81ffffffffffffff7f"},
		{float32(1), "723f800000"},
		{1.5, "823ff8000000000000"},
		{Char('A'), "7300000041"},
		{time.UnixMilli(1).UTC(), "830000000000000001"},
		{UUID{1, 2, 15: 3}, "9801020000000000000000000000000003"},
		{[]byte{1, 2}, "a0020102"},
		{"hi", "a1026869"},
		{Symbol("hi"), "a3026869"},
		{List{}, "d00000000400000000"},
		{List{uint32(0), "a"}, "d00000000800000002" + "43" + "a10161"},
		{Map{{"a", true}}, "d10000000800000002" + "a10161" + "41"},
		{Array{codeLong, []any{int64(1)}}, "f00000000d00000001" + "81" + "0000000000000001"},
		{Described{uint64(0x24), List{}}, "005324d00000000400000000"},
	} {
		got := AppendValue(nil, c.value)
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%T(%v) is %x, want %s", c.value, c.value, got, c.want)
		}
		back, err := DecodeValue(got)
		if err != nil || !reflect.DeepEqual(back, c.value) {
			t.Errorf("%x decodes to %#v, %v; want %#v", got, back, err, c.value)
		}
	}
}

func TestRoundTrips(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, v := range []any{
		long, Symbol(long), []byte(long), math.Inf(1), int64(math.MinInt64), uint64(math.MaxUint64), at,
		Decimal{1, 2, 3, 4},
		Decimal(make([]byte, 8)), Decimal(make([]byte, 16)),
		List{nil, List{Map{{int64(1), List{"x"}}, {Symbol("s"), nil}}}},
		Array{codeSym32, []any{Symbol("a"), Symbol(long)}},
		Array{codeUUID, []any{UUID{1}, UUID{2}}},
		Array{codeSym8, []any{Symbol("a")}},
		Array{codeStr8, []any{"a", ""}},
		Array{codeBin32, []any{[]byte("a")}},
		Array{codeTimestamp, []any{at, at}},
		Array{codeBool, []any{true, false}},
		Array{codeSmallInt, []any{int32(-3)}},
		Array{codeSmallUint, []any{uint32(3)}},
		Array{codeSmallLong, []any{int64(-3)}},
		Array{codeUint, []any{uint32(9)}},
		Array{codeList32, []any{List{"a"}, List{}}},
		Array{codeMap32, []any{Map{{"a", nil}}}},
		Described{Symbol("x:y"), Described{uint64(1), "z"}},
	} {
		got, err := DecodeValue(AppendValue(nil, v))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%#v came back as %#v, %v", v, got, err)
		}
	}
}

func TestPerformativesRoundTrip(t *testing.T) {
	failure := &Error{Condition: ErrNotFound, Description: "no", Info: Map{{Symbol("k"), "v"}}}
	for _, p := range []interface{ Append([]byte) []byte }{
		Open{ContainerID: "c", Hostname: "h", MaxFrameSize: 65536, ChannelMax: 7, IdleTimeout: time.Minute, Properties: Map{{Symbol("p"), "q"}}},
		Begin{IsReply: true, RemoteChannel: 3, NextOutgoingID: 1, IncomingWindow: 2, OutgoingWindow: 3, HandleMax: 4},
		Begin{NextOutgoingID: 1, IncomingWindow: 2, OutgoingWindow: 3, HandleMax: 4},
		Attach{
			Name: "n", Handle: 300, Role: RoleReceiver, SenderSettleMode: SenderSettled, ReceiverSettleMode: ReceiverSecond,
			Source: &Terminus{Address: "a", Filter: Map{{Symbol("f"), Described{uint64(1), "x"}}}}, Target: &Terminus{},
			MaxMessageSize: 1 << 20, Properties: Map{{Symbol("p"), int64(1)}},
		},
		Attach{Name: "n", Role: RoleSender, InitialDeliveryCount: 5, SenderSettleMode: SenderMixed},
		Flow{IncomingWindow: 1, NextOutgoingID: 2, OutgoingWindow: 3, Echo: true},
		Flow{
			HasNextIncomingID: true, NextIncomingID: 9, IncomingWindow: 1, HasHandle: true, Handle: 2, HasDeliveryCount: true,
			DeliveryCount: 3, HasLinkCredit: true, LinkCredit: 4, Drain: true,
		},
		Transfer{Handle: 1, HasDeliveryID: true, DeliveryID: 2, Tag: []byte{1}, Format: 0x80013700, Settled: true, More: true, Payload: []byte("p")},
		Transfer{Handle: 1, Payload: []byte{}},
		Disposition{Role: RoleReceiver, First: 1, Last: 2, Settled: true, State: State{Outcome: Accepted}},
		Disposition{First: 1, Last: 1, State: State{Outcome: Rejected, Error: failure}},
		Disposition{First: 1, Last: 1, State: State{Outcome: Rejected}},
		Disposition{First: 1, Last: 1, State: State{Outcome: Modified, DeliveryFailed: true, UndeliverableHere: true, Annotations: Map{{Symbol("a"), "b"}}}},
		Disposition{First: 1, Last: 1},
		Detach{Handle: 1, Closed: true, Error: failure},
		End{Error: failure},
		Close{},
	} {
		got, err := ParsePerformative(p.Append(nil))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v\ncame back as %+v, %v", p, got, err)
		}
	}
}

// Messages as the client library writes and reads them.
func TestMessagesOfGoAMQP(t *testing.T) {
	group, subject := "g", "s"
	sent := goamqp.Message{
		Header:                &goamqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Minute, DeliveryCount: 3},
		DeliveryAnnotations:   goamqp.Annotations{"d": "x"},
		Annotations:           goamqp.Annotations{"x-opt-partition-key": "p"},
		Properties:            &goamqp.MessageProperties{MessageID: "m", CorrelationID: uint64(5), GroupID: &group, Subject: &subject},
		ApplicationProperties: map[string]any{"k": int32(1)},
		Data:                  [][]byte{[]byte("one"), []byte("two")},
		Footer:                goamqp.Annotations{"f": "y"},
	}
	encoded, err := sent.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSections(encoded)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeader(s.Header)
	if want := (Header{Durable: true, Priority: 7, TTL: time.Minute, HasTTL: true, DeliveryCount: 3}); err != nil || h != want {
		t.Errorf("header %+v, %v", h, err)
	}
	p, err := ParseProperties(s.Properties)
	if want := (Properties{MessageID: "m", CorrelationID: uint64(5), GroupID: "g", HasGroupID: true, Subject: "s"}); err != nil || p != want {
		t.Errorf("properties %+v, %v", p, err)
	}
	application, err := ParseMap(s.ApplicationProperties)
	if err != nil || !reflect.DeepEqual(application, Map{{"k", int32(1)}}) {
		t.Errorf("application properties %v, %v", application, err)
	}
	var data []string
	if err := DataSections(s.Body, func(d []byte) error { data = append(data, string(d)); return nil }); err != nil ||
		strings.Join(data, ",") != "one,two" {
		t.Errorf("data %q, %v", data, err)
	}

	// And back: what we write, it reads the same.
	out := h.Append(nil)
	out, mark := BeginAnnotations(out)
	out = AppendValue(AppendSymbolKey(out, "x-opt-sequence-number"), int64(1)<<40)
	out = EndAnnotations(out, mark, 2)
	out = AppendProperties(out, s.Properties)
	out = AppendEncodedApplicationProperties(out, s.ApplicationProperties)
	out = append(out, s.Body...)
	var got goamqp.Message
	if err := got.UnmarshalBinary(out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Properties, sent.Properties) || !reflect.DeepEqual(got.Data, sent.Data) ||
		got.Annotations["x-opt-sequence-number"] != int64(1)<<40 || *got.Header != *sent.Header ||
		!reflect.DeepEqual(got.ApplicationProperties, sent.ApplicationProperties) {
		t.Errorf("came back as %+v", got)
	}
}

func TestHostileSizes(t *testing.T) {
	for name, encoded := range map[string]string{
		"list of 4 billion":          "d0ffffffffffffffff",
		"list with a count too high": "d000000005ffffffff40",
		"map with an odd count":      "d1000000070000000340404040",
		"array of 4 billion nulls":   "f000000005ffffffff40",
		"array of 255 trues":         "e002ff41",
		"array of one true":          "e0020141",
		"binary of 4 GB":             "b0ffffffff00",
		"string cut short":           "a1ff61",
		"deep descriptors":           strings.Repeat("00", 5000),
		"deep lists":                 strings.Repeat("c0ff01", 80),
		"unknown code":               "ff",
		"nothing":                    "",
	} {
		b, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		allocated := testing.AllocsPerRun(1, func() {
			if v, err := DecodeValue(b); err == nil {
				t.Errorf("%s decodes to %v", name, v)
			}
		})
		if allocated > 200 {
			t.Errorf("%s makes %f allocations", name, allocated)
		}
		r := reader{b: b}
		r.skip(0) // must end
	}
}

func TestFrameHeader(t *testing.T) {
	frame, mark := BeginFrame(nil, FrameAMQP, 0x102)
	frame = EndFrame(append(frame, "body"...), mark)
	h, err := ParseFrameHeader(frame)
	if err != nil || h.Size != 12 || h.Channel != 0x102 || string(h.Body(frame)) != "body" {
		t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range []string{"0000000c01000000", "0000000803000000", "000000070200", "0000000002000000"} {
		b, _ := hex.DecodeString(bad)
		if h, err := ParseFrameHeader(b); err == nil {
			t.Errorf("%s is read as %+v", bad, h)
		}
	}
}

func TestGUIDOrder(t *testing.T) {
	u := UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	if want := (UUID{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}); u.GUID() != want || u.GUID().GUID() != u {
		t.Errorf("%x", u.GUID())
	}
	if u.String() != "00010203-0405-0607-0809-0a0b0c0d0e0f" {
		t.Error(u.String())
	}
}

func TestSASL(t *testing.T) {
	frame, _ := hex.DecodeString("005341c01202" + "a309414e4f4e594d4f5553" + "a0047465737400"[:12])
	init, err := ParseSASLInit(frame)
	if err != nil || init.Mechanism != "ANONYMOUS" || string(init.InitialResponse) != "test" {
		t.Errorf("%+v, %v", init, err)
	}
	want, _ := hex.DecodeString("00000027" + "02010000" + "005340" + "d00000001700000001" + "f00000000e00000002" + "b3" + "0000000141" + "00000000")
	if got := AppendSASLMechanisms(nil, "A", ""); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzValue(f *testing.F) {
	for _, v := range []any{nil, "x", List{Map{{"a", Array{codeUUID, []any{UUID{}}}}}}, Described{uint64(1), at}} {
		f.Add(AppendValue(nil, v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeValue(b)
		if err != nil {
			return
		}
		encoded := AppendValue(nil, v)
		again, err := DecodeValue(encoded)
		if err != nil || !bytes.Equal(AppendValue(nil, again), encoded) {
			t.Errorf("%#v is encoded as %x, which decodes to %#v, %v", v, encoded, again, err)
		}
		r := reader{b: b}
		if r.skip(0); r.err != nil || r.off != len(b) {
			t.Errorf("skipping %x stops at %d: %v", b, r.off, r.err)
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(Attach{Name: "n", Source: &Terminus{Address: "a"}}.Append(nil))
	f.Add(Transfer{HasDeliveryID: true, Payload: []byte("p")}.Append(nil))
	f.Add(Disposition{State: State{Outcome: Rejected, Error: Errorf("c", "d")}}.Append(nil))
	f.Add(Flow{HasHandle: true}.Append(nil))
	f.Add(Open{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ParseFrameHeader(b); err == nil && int(h.Size) <= len(b) {
			_ = h.Body(b)
		}
		_, _ = ParseSASLInit(b)
		p, err := ParsePerformative(b)
		transfer, is, transferErr := IsTransfer(b)
		if is && (transferErr == nil) != (err == nil) {
			t.Errorf("one says %v, the other %v", err, transferErr)
		}
		if err != nil {
			return
		}
		if is && !reflect.DeepEqual(p, transfer) {
			t.Errorf("one reads %+v, the other %+v", p, transfer)
		}
		encoded := p.(interface{ Append([]byte) []byte }).Append(nil)
		if _, err := ParsePerformative(encoded); err != nil {
			t.Errorf("%+v is encoded as %x, which is read as %v", p, encoded, err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	m := Header{Priority: 4}.Append(nil)
	m = AppendReplyProperties(m, "id")
	m = AppendApplicationProperties(m, Map{{"a", "b"}})
	f.Add(AppendValueSection(m, "x"))
	f.Add([]byte{0x00, 0x53, 0x75, 0xa0, 0x01, 0x61})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSections(b)
		if err != nil {
			return
		}
		_, _ = ParseHeader(s.Header)
		_, _ = ParseProperties(s.Properties)
		_, _ = ParseMap(s.ApplicationProperties)
		_, _ = ParseMap(s.Annotations)
		_ = IsEmptyMap(s.Annotations)
		_, _ = ValueSection(s.Body)
		_ = DataSections(s.Body, func([]byte) error { return nil })
	})
}

func TestWithMessageID(t *testing.T) {
	list := func(code byte, content ...byte) []byte { return append([]byte{code}, content...) }
	for _, section := range [][]byte{
		nil,
		list(codeList0),
		list(codeList8, 1, 0),
		list(codeList8, 2, 1, codeNull),
		list(codeList8, 7, 3, codeNull, codeNull, codeStr8, 2, 't', 'o'),
		list(codeList32, 0, 0, 0, 10, 0, 0, 0, 3, codeNull, codeNull, codeStr8, 2, 't', 'o'),
	} {
		before, err := ParseProperties(section)
		if err != nil {
			t.Fatal(err)
		}
		set, err := WithMessageID(section, "id")
		if err != nil {
			t.Fatal(err)
		}
		after, err := ParseProperties(set)
		before.MessageID = "id"
		if err != nil || after != before {
			t.Errorf("% x: %+v, %v", section, after, err)
		}
	}
	for _, section := range [][]byte{{}, list(codeList8, 9, 1), list(codeList8, 4, 1, codeStr8, 1, 'x')} {
		if set, err := WithMessageID(section, "id"); err == nil {
			t.Errorf("% x became % x", section, set)
		}
	}
}
