package management

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

var now = time.Unix(1_900_000_000, 0)

func token(key, name, resource string, expiresAt time.Time) string {
	sr, se := url.QueryEscape(resource), strconv.FormatInt(expiresAt.Unix(), 10)
	return "SharedAccessSignature sr=" + sr + "&sig=" + url.QueryEscape(signature(key, sr+"\n"+se)) + "&se=" + se + "&skn=" + name
}

func TestTokens(t *testing.T) {
	keys := Keys{"app": "secret-fake"}
	good := token("secret-fake", "app", "amqp://127.0.0.1:5672/Topic", now.Add(time.Hour))
	for name, c := range map[string]struct {
		body   any
		status int32
	}{
		"good":           {good, statusAccepted},
		"wrong key":      {token("other", "app", "amqp://h/t", now.Add(time.Hour)), statusUnauthorized},
		"unknown name":   {token("secret-fake", "nobody", "amqp://h/t", now.Add(time.Hour)), statusUnauthorized},
		"expired":        {token("secret-fake", "app", "amqp://h/t", now), statusUnauthorized},
		"not signed":     {strings.Replace(good, "se=", "se=9", 1), statusUnauthorized},
		"another entity": {strings.Replace(good, "Topic", "Other", 1), statusUnauthorized},
		"JWT":            {"eyJ.x.y", statusUnauthorized},
		"no token":       {nil, statusUnauthorized},
	} {
		response, claim := PutToken(keys, &Request{Operation: "put-token", Body: c.body}, now)
		if response.Status != c.status || (claim != nil) != (c.status == statusAccepted) {
			t.Errorf("%s: %+v, %v", name, response, claim)
		}
		if strings.Contains(response.Description, "secret-fake") {
			t.Errorf("%s: the key is in %q", name, response.Description)
		}
	}
	if response, _ := PutToken(nil, &Request{Operation: "put-token"}, now); response.Status != statusAccepted {
		t.Errorf("without keys: %+v", response)
	}
	if response, _ := PutToken(nil, &Request{Operation: "delete-token"}, now); response.Status != statusNotImplemented {
		t.Errorf("another operation: %+v", response)
	}
}

func TestClaimCovers(t *testing.T) {
	c := Claim{Path: "topic", ExpiresAt: now.Add(time.Second)}
	for path, want := range map[string]bool{
		"Topic": true, "topic/Subscriptions/s": true, "/topic/": true, "topics": false, "other": false,
	} {
		if c.Covers(path, now) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	if c.Covers("topic", now.Add(time.Second)) {
		t.Error("it covers after its end")
	}
	if !(Claim{ExpiresAt: now.Add(1)}).Covers("anything", now) {
		t.Error("the namespace's claim does not cover")
	}
}

func TestPlain(t *testing.T) {
	keys := Keys{"app": "k"}
	for response, want := range map[string]bool{"\x00app\x00k": true, "\x00app\x00x": false, "\x00x\x00k": false, "app": false, "": false} {
		if keys.Plain([]byte(response)) != want {
			t.Errorf("%q: %v", response, !want)
		}
	}
}

func TestRequestsAndResponses(t *testing.T) {
	list := amqp.AppendValue(nil, amqp.List{"id-1", nil, nil, nil, "back"})
	m := amqp.AppendProperties(nil, list)
	m = amqp.AppendApplicationProperties(m, amqp.Map{{Key: "operation", Value: "op"}})
	m = amqp.AppendValueSection(m, "body")
	r, err := ParseRequest(m)
	if err != nil || r.Operation != "op" || r.ReplyTo != "back" || r.MessageID != "id-1" || r.Body != "body" {
		t.Fatalf("%+v, %v", r, err)
	}
	response := failure(410, "x:y", "gone %d", 1)
	s, err := amqp.ParseSections(response.Append(nil, &r))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := amqp.ParseProperties(s.Properties)
	application, _ := amqp.ParseMap(s.ApplicationProperties)
	status, _ := application.Get("statusCode")
	description, _ := application.Get("statusDescription")
	if p.CorrelationID != "id-1" || status != int32(410) || description != "gone 1" {
		t.Errorf("%+v, %v", p, application)
	}
	for _, bad := range [][]byte{nil, {0xff}, amqp.AppendValueSection(nil, "x")} {
		if r, err := ParseRequest(bad); err == nil {
			t.Errorf("%x is read as %+v", bad, r)
		}
	}
}

func TestOperationsSayWhatIsWrong(t *testing.T) {
	b := broker.New(broker.SystemClock{})
	if err := b.AddQueue(broker.QueueSettings{Name: "q", LockDuration: time.Minute, MaxDeliveryCount: 1, MaxSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	q := b.Queue("q")
	one := amqp.Array{Code: amqp.ArrayOfLongs, Items: []any{int64(1)}}
	lost := amqp.Array{Code: amqp.ArrayOfUUIDs, Items: []any{amqp.UUID{1}}}
	for _, c := range []struct {
		operation string
		body      any
		status    int32
		says      string
	}{
		{"com.microsoft:nonsense", amqp.Map{}, 501, "peek-message"},
		{"com.microsoft:schedule-message", amqp.Map{}, 400, "messages"},
		{"com.microsoft:schedule-message", amqp.Map{{Key: "messages", Value: amqp.List{amqp.Map{}}}}, 400, "'message'"},
		{"com.microsoft:cancel-scheduled-message", amqp.Map{}, 400, "sequence-numbers"},
		{"com.microsoft:cancel-scheduled-message", amqp.Map{{Key: "sequence-numbers", Value: one}}, 404, "scheduled"},
		{"com.microsoft:get-session-state", amqp.Map{}, 400, "session-id"},
		{"com.microsoft:get-session-state", amqp.Map{{Key: "session-id", Value: "s"}}, 410, "session 's'"},
		{"com.microsoft:set-session-state", amqp.Map{{Key: "session-id", Value: "s"}}, 410, "session 's'"},
		{"com.microsoft:set-session-state", amqp.Map{{Key: "session-id", Value: "s"}, {Key: "session-state", Value: "x"}}, 400, "session-state"},
		{"com.microsoft:get-message-sessions", amqp.Map{}, 400, "top"},
		{"com.microsoft:get-message-sessions", amqp.Map{{Key: "top", Value: int32(1)}}, 204, ""},
		{"com.microsoft:receive-by-sequence-number", amqp.Map{}, 400, "sequence-numbers"},
		{"com.microsoft:receive-by-sequence-number", amqp.Map{{Key: "sequence-numbers", Value: one}}, 400, "settle-mode"},
		{"com.microsoft:receive-by-sequence-number", amqp.Map{
			{Key: "sequence-numbers", Value: one}, {Key: "receiver-settle-mode", Value: uint32(1)},
		}, 404, "number 1"},
		{"com.microsoft:renew-lock", "x", 400, "not a map"},
		{"com.microsoft:renew-lock", amqp.Map{}, 400, "lock-tokens"},
		{"com.microsoft:renew-lock", amqp.Map{{Key: "lock-tokens", Value: amqp.List{"x"}}}, 400, "lock-tokens"},
		{"com.microsoft:renew-lock", amqp.Map{{Key: "lock-tokens", Value: lost}}, 410, "lock"},
		{"com.microsoft:renew-session-lock", amqp.Map{}, 400, "session-id"},
		{"com.microsoft:renew-session-lock", amqp.Map{{Key: "session-id", Value: "s"}}, 410, "session 's'"},
		{"com.microsoft:update-disposition", amqp.Map{{Key: "lock-tokens", Value: lost}}, 400, "disposition-status"},
		{"com.microsoft:update-disposition", amqp.Map{
			{Key: "lock-tokens", Value: lost}, {Key: "disposition-status", Value: "deferred"},
		}, 400, "defered"},
		{"com.microsoft:update-disposition", amqp.Map{
			{Key: "lock-tokens", Value: lost}, {Key: "disposition-status", Value: "defered"},
		}, 410, "lock"},
		{"com.microsoft:update-disposition", amqp.Map{
			{Key: "lock-tokens", Value: lost}, {Key: "disposition-status", Value: "completed"},
		}, 410, "lock"},
		{"com.microsoft:peek-message", amqp.Map{}, 400, "from-sequence-number"},
		{"com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(0)}}, 400, "message-count"},
		{"com.microsoft:peek-message", amqp.Map{
			{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(1)},
		}, 204, ""},
	} {
		got := Operate(q, b.Destination("q"), &Request{Operation: c.operation, Body: c.body})
		if got.Status != c.status || !strings.Contains(got.Description, c.says) {
			t.Errorf("%s %v answers %+v", c.operation, c.body, got)
		}
	}
	for _, c := range []struct {
		d      *broker.Destination
		status int32
	}{{b.Destination("q"), 501}, {nil, 404}} {
		if got := Operate(nil, c.d, &Request{Operation: "com.microsoft:peek-message", Body: amqp.Map{}}); got.Status != c.status {
			t.Errorf("on a topic, or none: %+v, want %d", got, c.status)
		}
	}
}

func TestTicks(t *testing.T) {
	if got := Ticks(time.Unix(0, 0)); got != 621355968000000000 {
		t.Error(got)
	}
}

func FuzzRequest(f *testing.F) {
	m := amqp.AppendApplicationProperties(nil, amqp.Map{{Key: "operation", Value: "com.microsoft:peek-message"}})
	f.Add(amqp.AppendValueSection(m, amqp.Map{{Key: "message-count", Value: int32(1)}}))
	b := broker.New(broker.SystemClock{})
	if err := b.AddQueue(broker.QueueSettings{Name: "q", LockDuration: time.Minute, MaxDeliveryCount: 1, MaxSize: 1 << 20}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		r, err := ParseRequest(m)
		if err != nil {
			return
		}
		response := Operate(b.Queue("q"), b.Destination("q"), &r)
		if _, err := amqp.ParseSections(response.Append(nil, &r)); err != nil {
			t.Error(err)
		}
		PutToken(Keys{"a": "b"}, &r, now)
	})
}
