package management

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// The descriptors of what rules are described by. Those of filters have one digit less than the others, as in Service Bus.
const (
	descriptorRule              uint64 = 0x13700000004
	descriptorEmptyAction       uint64 = 0x13700000005
	descriptorSQLAction         uint64 = 0x13700000006
	descriptorSQLFilter         uint64 = 0x1370000006
	descriptorTrueFilter        uint64 = 0x1370000007
	descriptorFalseFilter       uint64 = 0x1370000008
	descriptorCorrelationFilter uint64 = 0x1370000009
)

const (
	// sqlVersion is the version of the language of filters and actions, which .NET's SDK reads.
	sqlVersion int32 = 20
	// maxRuleName is the longest name of a rule, characters.
	maxRuleName = 50
	// errArgument is the condition with which Service Bus refuses a value.
	errArgument amqp.Symbol = "com.microsoft:argument-error"
)

func enumerateRules(q *broker.Queue, r *Request, body amqp.Map) Response {
	skip, _ := integer(body, "skip")
	top, ok := integer(body, "top")
	if skip < 0 {
		return invalid(r, "skip", "a number of 0 or more")
	}
	if !ok || top < 1 {
		return invalid(r, "top", "a number of 1 or more")
	}
	rules, ok := q.Rules()
	if !ok {
		return failure(statusBadRequest, amqp.ErrNotAllowed, "%s: '%s' is not a subscription; only subscriptions have rules",
			r.Operation, q.Path())
	}
	rules = rules[min(skip, int64(len(rules))):]
	rules = rules[:min(top, int64(len(rules)))]
	if len(rules) == 0 {
		return Response{Status: statusNoContent, Description: "No rules."}
	}
	found := amqp.List{}
	for _, rule := range rules {
		found = append(found, amqp.Map{{Key: "rule-description", Value: describeRule(rule)}})
	}
	return answer("rules", found)
}

func addRule(q *broker.Queue, r *Request, body amqp.Map) Response {
	name, ok := text(body, "rule-name")
	if !ok || strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxRuleName || strings.ContainsAny(name, `/\?#@`) {
		return invalid(r, "rule-name", fmt.Sprintf(`a string of 1 to %d characters without / \ ? # @`, maxRuleName))
	}
	value, _ := body.Get("rule-description")
	description, ok := value.(amqp.Map)
	if !ok {
		return invalid(r, "rule-description", "a map")
	}
	rule, err := readRule(description)
	if err != nil {
		return failure(statusBadRequest, errArgument, "%s: '%s': %v", r.Operation, name, err)
	}
	rule.Name = name
	if err := q.AddRule(rule); err != nil {
		return refusal(err)
	}
	return answer("", nil)
}

func removeRule(q *broker.Queue, r *Request, body amqp.Map) Response {
	name, ok := text(body, "rule-name")
	if !ok || name == "" {
		return invalid(r, "rule-name", "a string")
	}
	if err := q.RemoveRule(name); err != nil {
		return refusal(err)
	}
	return answer("", nil)
}

// readRule reads a description of one filter and, if there is one, an action. Errors name the field.
func readRule(description amqp.Map) (rule broker.Rule, err error) {
	sql, hasSQL := nested(description, "sql-filter")
	correlation, hasCorrelation := nested(description, "correlation-filter")
	switch {
	case hasSQL && hasCorrelation:
		return rule, fmt.Errorf("sql-filter and correlation-filter exclude each other")
	case hasSQL:
		expression, _ := text(sql, "expression")
		if rule.Filter, err = filter.ParseSQL(expression, nil); err != nil {
			return rule, fmt.Errorf("sql-filter: %w", err)
		}
	case hasCorrelation:
		if rule.Filter, err = readCorrelation(correlation); err != nil {
			return rule, fmt.Errorf("correlation-filter: %w", err)
		}
	default:
		return rule, fmt.Errorf("it has neither a sql-filter nor a correlation-filter")
	}
	if action, ok := nested(description, "sql-rule-action"); ok {
		if expression, _ := text(action, "expression"); expression != "" {
			if rule.Action, err = filter.ParseAction(expression, nil); err != nil {
				return rule, fmt.Errorf("sql-rule-action: %w", err)
			}
		}
	}
	return rule, nil
}

func readCorrelation(m amqp.Map) (*filter.Correlation, error) {
	c := &filter.Correlation{}
	for key, field := range map[string]*string{
		"correlation-id": &c.CorrelationID, "message-id": &c.MessageID, "to": &c.To, "reply-to": &c.ReplyTo, "label": &c.Label,
		"session-id": &c.SessionID, "reply-to-session-id": &c.ReplyToSessionID, "content-type": &c.ContentType,
	} {
		value, _ := m.Get(key)
		if value == nil {
			continue
		}
		var ok bool
		if *field, ok = value.(string); !ok {
			return nil, fmt.Errorf("'%s' is not a string", key)
		}
	}
	properties, _ := nested(m, "properties")
	for _, entry := range properties {
		name, ok := entry.Key.(string)
		if !ok {
			return nil, fmt.Errorf("'properties' has a name that is not a string")
		}
		if c.Properties == nil {
			c.Properties = map[string]any{}
		}
		if c.Properties[name], ok = plainValue(entry.Value); !ok {
			return nil, fmt.Errorf("'properties': '%s' is not a string, boolean, number or timestamp", name)
		}
	}
	if c.IsEmpty() {
		return nil, fmt.Errorf("it sets nothing, so it would select nothing in particular")
	}
	return c, nil
}

// plainValue answers a value as filters compare it.
func plainValue(v any) (any, bool) {
	switch v := v.(type) {
	case string, bool, int64, float64, time.Time:
		return v, true
	case amqp.Symbol:
		return string(v), true
	case float32:
		return float64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return nil, false
}

// nested is a map within a map.
func nested(m amqp.Map, key string) (amqp.Map, bool) {
	v, _ := m.Get(key)
	inner, ok := v.(amqp.Map)
	return inner, ok
}

func describeRule(r broker.Rule) amqp.Described {
	action := amqp.Described{Descriptor: descriptorEmptyAction, Value: amqp.List{}}
	if r.Action != nil {
		action = amqp.Described{Descriptor: descriptorSQLAction, Value: amqp.List{r.Action.String(), sqlVersion}}
	}
	return amqp.Described{Descriptor: descriptorRule, Value: amqp.List{describeFilter(r.Filter), action, r.Name, r.CreatedAt}}
}

func describeFilter(f filter.Filter) amqp.Described {
	if wrapped, ok := f.(interface{ Unwrap() filter.Filter }); ok {
		f = wrapped.Unwrap()
	}
	switch f := f.(type) {
	case filter.False:
		return amqp.Described{Descriptor: descriptorFalseFilter, Value: amqp.List{}}
	case *filter.SQL:
		return amqp.Described{Descriptor: descriptorSQLFilter, Value: amqp.List{f.String(), sqlVersion}}
	case *filter.Correlation:
		return amqp.Described{Descriptor: descriptorCorrelationFilter, Value: amqp.List{
			orNull(f.CorrelationID), orNull(f.MessageID), orNull(f.To), orNull(f.ReplyTo), orNull(f.Label),
			orNull(f.SessionID), orNull(f.ReplyToSessionID), orNull(f.ContentType), describeProperties(f.Properties),
		}}
	}
	return amqp.Described{Descriptor: descriptorTrueFilter, Value: amqp.List{}}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func describeProperties(properties map[string]any) any {
	described := amqp.Map{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		value := properties[name]
		if n, ok := value.(int); ok { // from a configuration
			value = int64(n)
		}
		described = append(described, amqp.MapEntry{Key: name, Value: value})
	}
	return described
}
