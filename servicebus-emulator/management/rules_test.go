package management

import (
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// ruleOperations are requests about the rules of subscription "s", as clients send and read them.
type ruleOperations struct {
	*testing.T
	broker *broker.Broker
}

func newRuleOperations(t *testing.T) ruleOperations {
	t.Helper()
	b := broker.New(broker.SystemClock{})
	t.Cleanup(b.Stop)
	s := broker.SubscriptionSettings{Name: "s", LockDuration: time.Minute, MaxDeliveryCount: 1}
	err := b.AddTopic(broker.TopicSettings{Name: "t", MaxSize: 1 << 20, MaxMessageSize: 1 << 18, Subscriptions: []broker.SubscriptionSettings{s}})
	if err != nil {
		t.Fatal(err)
	}
	return ruleOperations{t, b}
}

func (o ruleOperations) do(operation string, body amqp.Map) Response {
	o.Helper()
	return Operate(o.broker.Subscription("t", "s"), nil, &Request{Operation: "com.microsoft:" + operation, Body: body})
}

func (o ruleOperations) add(name string, description amqp.Map) Response {
	o.Helper()
	return o.do("add-rule", amqp.Map{{Key: "rule-name", Value: name}, {Key: "rule-description", Value: description}})
}

// list reads the answer to enumerate-rules off the wire.
func (o ruleOperations) list(skip, top int32) (status int32, rules []amqp.List) {
	o.Helper()
	response := o.do("enumerate-rules", amqp.Map{{Key: "skip", Value: skip}, {Key: "top", Value: top}})
	sections, err := amqp.ParseSections(response.Append(nil, &Request{MessageID: "m"}))
	if err != nil {
		o.Fatal(err)
	}
	body, err := amqp.ValueSection(sections.Body)
	if err != nil {
		o.Fatal(err)
	}
	found, _ := body.(amqp.Map)
	for _, item := range list(found, "rules") {
		value, _ := item.(amqp.Map).Get("rule-description")
		rule := value.(amqp.Described)
		if rule.Descriptor != descriptorRule {
			o.Fatalf("a rule is described as %v", rule)
		}
		rules = append(rules, rule.Value.(amqp.List))
	}
	return response.Status, rules
}

// is compares a part of a rule with its descriptor and first field.
func (o ruleOperations) is(part any, descriptor uint64, fields ...any) {
	o.Helper()
	described, ok := part.(amqp.Described)
	if !ok || described.Descriptor != descriptor {
		o.Fatalf("%v is not described by %x", part, descriptor)
	}
	got := described.Value.(amqp.List)
	for i, want := range fields {
		if len(got) <= i || got[i] != want {
			o.Errorf("%v, want %v", got, fields)
		}
	}
}

func sql(expression string) amqp.Map {
	return amqp.Map{{Key: "sql-filter", Value: amqp.Map{{Key: "expression", Value: expression}}}}
}

// A subscription starts with the rule $Default. What is added is listed after it in the order of its making, in pages.
func TestRulesAreAddedListedAndRemoved(t *testing.T) {
	o := newRuleOperations(t)
	status, rules := o.list(0, 100)
	if status != statusOK || len(rules) != 1 || rules[0][2] != broker.DefaultRuleName {
		t.Fatalf("%d, %v", status, rules)
	}
	o.is(rules[0][0], descriptorTrueFilter)
	o.is(rules[0][1], descriptorEmptyAction)
	if _, ok := rules[0][3].(time.Time); !ok {
		t.Errorf("it was made at %v", rules[0][3])
	}

	withAction := append(sql("colour = 'red'"), amqp.MapEntry{Key: "sql-rule-action", Value: amqp.Map{{Key: "expression", Value: "SET seen = 1"}}})
	correlation := amqp.Map{{Key: "correlation-filter", Value: amqp.Map{
		{Key: "correlation-id", Value: "c"},
		{Key: "label", Value: "l"},
		{Key: "to", Value: nil},
		{Key: "properties", Value: amqp.Map{{Key: "size", Value: int32(2)}, {Key: "colour", Value: "red"}}},
	}}}
	for name, description := range map[string]amqp.Map{"red": withAction, "match": correlation} {
		if got := o.add(name, description); got.Status != statusOK {
			t.Fatalf("%s: %+v", name, got)
		}
	}
	_, rules = o.list(0, 100)
	if len(rules) != 3 {
		t.Fatalf("%v", rules)
	}
	for _, rule := range rules[1:] {
		if rule[2] == "red" {
			o.is(rule[0], descriptorSQLFilter, "colour = 'red'", sqlVersion)
			o.is(rule[1], descriptorSQLAction, "SET seen = 1", sqlVersion)
			continue
		}
		o.is(rule[0], descriptorCorrelationFilter, "c", nil, nil, nil, "l", nil, nil, nil)
		properties := rule[0].(amqp.Described).Value.(amqp.List)[8].(amqp.Map)
		size, _ := properties.Get("size")
		if colour, _ := properties.Get("colour"); colour != "red" || size != int64(2) {
			t.Errorf("%v", properties)
		}
	}
	if _, page := o.list(1, 1); len(page) != 1 || page[0][2] != rules[1][2] {
		t.Errorf("the second page: %v", page)
	}
	if status, page := o.list(3, 1); status != statusNoContent || len(page) != 0 {
		t.Errorf("the page after the last: %d, %v", status, page)
	}

	if got := o.do("remove-rule", amqp.Map{{Key: "rule-name", Value: "RED"}}); got.Status != statusOK {
		t.Fatalf("%+v", got)
	}
	if _, rules = o.list(0, 100); len(rules) != 2 {
		t.Errorf("%v", rules)
	}
}

// A rule that was made by an administrator, who wraps its filter, is described by what it is.
func TestRulesOfAdministratorsAreDescribed(t *testing.T) {
	o := newRuleOperations(t)
	if err := o.broker.PutRule("t", "s", "false", broker.Rule{Filter: wrapping{filter.False{}}}); err != nil {
		t.Fatal(err)
	}
	correlation := &filter.Correlation{Properties: map[string]any{"n": 1}} // as a configuration has it
	if err := o.broker.PutRule("t", "s", "number", broker.Rule{Filter: wrapping{correlation}}); err != nil {
		t.Fatal(err)
	}
	_, rules := o.list(1, 100)
	o.is(rules[0][0], descriptorFalseFilter)
	o.is(rules[1][0], descriptorCorrelationFilter)
}

type wrapping struct{ filter.Filter }

func (w wrapping) Unwrap() filter.Filter { return w.Filter }

// What is there already, what is missing and what cannot be read are refused, and change nothing.
func TestRulesThatAreRefused(t *testing.T) {
	o := newRuleOperations(t)
	if got := o.add("r", sql("1=1")); got.Status != statusOK {
		t.Fatalf("%+v", got)
	}
	for name, c := range map[string]struct {
		response  Response
		status    int32
		condition amqp.Symbol
		says      string
	}{
		"added twice":       {o.add("R", sql("1=1")), statusConflict, "com.microsoft:entity-already-exists", "already exists"},
		"without a name":    {o.add(" ", sql("1=1")), statusBadRequest, amqp.ErrInvalidField, "rule-name"},
		"with a long name":  {o.add(strings.Repeat("r", 51), sql("1=1")), statusBadRequest, amqp.ErrInvalidField, "50"},
		"without a filter":  {o.add("n", amqp.Map{}), statusBadRequest, errArgument, "neither"},
		"with two filters":  {o.add("n", append(sql("1=1"), amqp.MapEntry{Key: "correlation-filter", Value: amqp.Map{}})), statusBadRequest, errArgument, "exclude"},
		"with bad SQL":      {o.add("n", sql("colour =")), statusBadRequest, errArgument, "sql-filter"},
		"with an empty one": {o.add("n", amqp.Map{{Key: "correlation-filter", Value: amqp.Map{}}}), statusBadRequest, errArgument, "sets nothing"},
		"with a bad value": {
			o.add("n", amqp.Map{{Key: "correlation-filter", Value: amqp.Map{{Key: "properties", Value: amqp.Map{{Key: "a", Value: amqp.List{}}}}}}}),
			statusBadRequest, errArgument, "'a'",
		},
		"with a bad action": {
			o.add("n", append(sql("1=1"), amqp.MapEntry{Key: "sql-rule-action", Value: amqp.Map{{Key: "expression", Value: "DROP x"}}})),
			statusBadRequest, errArgument, "sql-rule-action",
		},
		"removed though missing": {o.do("remove-rule", amqp.Map{{Key: "rule-name", Value: "n"}}), statusNotFound, amqp.ErrNotFound, "could not be found"},
		"removed without a name": {o.do("remove-rule", amqp.Map{}), statusBadRequest, amqp.ErrInvalidField, "rule-name"},
		"listed without a top":   {o.do("enumerate-rules", amqp.Map{}), statusBadRequest, amqp.ErrInvalidField, "top"},
	} {
		if r := c.response; r.Status != c.status || r.Condition != c.condition || !strings.Contains(r.Description, c.says) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, rules := o.list(0, 100); len(rules) != 2 {
		t.Errorf("%v", rules)
	}
	dead := o.broker.Queue("t/Subscriptions/s/$DeadLetterQueue")
	for _, operation := range []string{"add-rule", "remove-rule", "enumerate-rules"} {
		body := amqp.Map{{Key: "rule-name", Value: "n"}, {Key: "rule-description", Value: sql("1=1")}, {Key: "top", Value: int32(1)}}
		if got := Operate(dead, nil, &Request{Operation: "com.microsoft:" + operation, Body: body}); got.Condition != amqp.ErrNotAllowed {
			t.Errorf("%s on a dead-letter queue: %+v", operation, got)
		}
	}
}
