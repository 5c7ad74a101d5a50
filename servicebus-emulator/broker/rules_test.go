package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

func sql(t *testing.T, expression string) filter.Filter {
	t.Helper()
	f, err := filter.ParseSQL(expression, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func rule(t *testing.T, name, expression, action string) Rule {
	t.Helper()
	a, err := filter.ParseAction(action, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Rule{Name: name, Filter: sql(t, expression), Action: a}
}

// received takes a message apart as a client would.
func (b *bench) received(d *Delivery) (amqp.Header, amqp.Properties, amqp.Map, amqp.Map) {
	b.Helper()
	s, err := amqp.ParseSections(d.Append(nil))
	if err != nil {
		b.Fatal(err)
	}
	h, err1 := amqp.ParseHeader(s.Header)
	p, err2 := amqp.ParseProperties(s.Properties)
	application, err3 := amqp.ParseMap(s.ApplicationProperties)
	annotations, err4 := amqp.ParseMap(s.Annotations)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			b.Fatal(err)
		}
	}
	return h, p, application, annotations
}

// full is a message with all sections: header, annotations, properties, application properties, body.
func full(body string) []byte {
	m := amqp.Header{Priority: 4, HasTTL: true, TTL: time.Hour}.Append(nil)
	m, mark := amqp.BeginAnnotations(m)
	m = amqp.AppendValue(amqp.AppendSymbolKey(m, "x-opt-partition-key"), "pk")
	m = amqp.AppendValue(amqp.AppendSymbolKey(m, "x-opt-other"), int32(1))
	m = amqp.EndAnnotations(m, mark, 4)
	m = amqp.AppendProperties(m, amqp.AppendValue(nil, amqp.List{"m1", []byte("user"), "to", "label"}))
	m = amqp.AppendApplicationProperties(m, amqp.Map{{Key: "n", Value: int32(8)}, {Key: "color", Value: "red"}})
	return amqp.AppendValueSection(m, body)
}

// The scenario of Service Bus's documentation: five rules that match, of which two have an action, give three messages.
func TestRulesWithActionsGiveCopiesOfTheirOwn(t *testing.T) {
	b := setUp(t, QueueSettings{
		Rules: []Rule{
			{Name: "1", Filter: sql(t, "n = 8")},
			{Name: "2", Filter: sql(t, "color = 'red'")},
			{Name: "3", Filter: filter.True{}},
			{Name: "4", Filter: filter.False{}},
			rule(t, "half", "color = 'red'", "SET n = n / 2; SET sys.Label = 'half'"),
			rule(t, "none", "color = 'blue'", "REMOVE n"),
			rule(t, "bare", "EXISTS(n)", "REMOVE N; REMOVE color; REMOVE sys.Label"),
		},
	})
	c := b.consume()
	b.ok(b.topic.Publish(full("x")))
	var got []string
	for _, d := range b.expect(c, "x", "x", "x") {
		_, p, application, annotations := b.received(&d)
		name, _ := application.Get("RuleName")
		n, _ := application.Get("n")
		number, _ := annotations.Get("x-opt-enqueue-sequence-number")
		got = append(got, fmt.Sprintln(name, n, len(application), p.Subject, p.MessageID, number, d.SequenceNumber()))
		b.ok(b.queue.Complete(d.Token))
	}
	if want := []string{"<nil> 8 2 label m1 1 1\n", "half 4 3 half m1 1 2\n", "bare <nil> 1  m1 1 3\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if used := b.queue.quota.used.Load(); used != 0 {
		t.Errorf("%d bytes used", used)
	}
}

func TestOnlyRulesWithActions(t *testing.T) {
	b := setUp(t, QueueSettings{
		RequiresSession: true,
		Rules:           []Rule{rule(t, "r", "sys.SessionId = 'a'", "SET sys.SessionId = 'b'")},
	})
	b.send(draft{body: "1", session: "a"}, draft{body: "2", session: "c"})
	b.counts(Counts{Active: 1})
	if s := b.queue.sessions["b"]; s == nil || s.lane.length != 1 {
		t.Error("it is not in the session that the action set")
	}
}

func TestActionsOnSystemProperties(t *testing.T) {
	b := setUp(t, QueueSettings{Rules: []Rule{rule(t, "r",
		"sys.EnqueuedTimeUtc + sys.TimeToLive = sys.ExpiresAtUtc AND sys.PartitionKey = 'pk' AND sys.Size > 50 AND sys.DeliveryCount = 0",
		`SET sys.MessageId = 'id'; SET sys.CorrelationId = sys.MessageId; SET sys.ContentType = 'ct'; SET sys.ReplyTo = 'r'; SET sys.To = 't';
		 SET sys.ReplyToSessionId = 'rs'; SET sys.SessionId = 's'; SET sys.PartitionKey = 'p2'; SET sys.ViaPartitionKey = 'via';
		 SET sys.TimeToLive = sys.TimeToLive + sys.TimeToLive; SET was = sys.Label; SET sys.ScheduledEnqueueTimeUtc = sys.ExpiresAtUtc`)}})
	b.ok(b.topic.Publish(full("x")))
	d := b.expect(b.consume(), "x")[0]
	h, p, application, annotations := b.received(&d)
	want := amqp.Properties{
		MessageID: "id", CorrelationID: "id", ContentType: "ct", ReplyTo: "r", To: "t", ReplyToGroupID: "rs", GroupID: "s", HasGroupID: true, Subject: "label",
	}
	if p != want || h.TTL != 2*time.Hour {
		t.Errorf("%+v, lives for %s", p, h.TTL)
	}
	for key, want := range map[string]any{"x-opt-partition-key": "p2", "x-opt-via-partition-key": "via", "x-opt-other": int32(1), scheduledAnnotation: nil} {
		if got, _ := annotations.Get(key); got != want {
			t.Errorf("%s is %v", key, got)
		}
	}
	if was, _ := application.Get("was"); was != "label" {
		t.Errorf("was %v", was)
	}
	s, err := amqp.ParseSections(d.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := amqp.DecodeValue(s.Properties); string(list.(amqp.List)[1].([]byte)) != "user" {
		t.Errorf("properties %v", list)
	} else if list.(amqp.List)[6] != any(amqp.Symbol("ct")) {
		t.Errorf("the content type is a %T", list.(amqp.List)[6])
	}
	b.clock.advance(2*time.Hour - time.Second)
	b.counts(Counts{Active: 1})
	b.clock.advance(time.Second)
	b.counts(Counts{})
}

func TestActionsRemoveSystemProperties(t *testing.T) {
	b := setUp(t, QueueSettings{Rules: []Rule{
		rule(t, "r", "sys.ExpiresAtUtc IS NOT NULL", "REMOVE sys.TimeToLive; REMOVE sys.PartitionKey; REMOVE sys.To"),
		rule(t, "bare", "sys.TimeToLive IS NULL AND sys.ExpiresAtUtc IS NULL AND sys.ViaPartitionKey IS NULL", "SET sys.Label = 'x'"),
	}})
	b.ok(b.topic.Publish(full("1")))
	b.send(draft{body: "2"})
	deliveries := b.expect(b.consume(), "1", "2")
	h, p, _, annotations := b.received(&deliveries[0])
	if _, ok := annotations.Get("x-opt-partition-key"); ok || h.HasTTL || p.To != "" || p.Subject != "label" {
		t.Errorf("%+v %+v %v", h, p, annotations)
	}
	if _, p, _, _ := b.received(&deliveries[1]); p.Subject != "x" {
		t.Errorf("%+v", p)
	}
}
