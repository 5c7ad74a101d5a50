package atom

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	sqlAction   = "SqlRuleAction"
	emptyAction = "EmptyRuleAction"
)

// rule reads a rule. Errors name the element.
func (x *ruleXML) rule() (Rule, error) {
	r := Rule{Name: x.Name}
	if r.Name == "" {
		r.Name = DefaultRuleName
	}
	var err error
	if r.Filter, err = x.Filter.filter(); err != nil {
		return r, in("Filter", err)
	}
	if r.Action, err = x.Action.action(); err != nil {
		return r, in("Action", err)
	}
	return r, nil
}

func (x *expressionXML) filter() (Filter, error) {
	if x == nil {
		return Filter{Kind: TrueFilter}, nil
	}
	f := Filter{Kind: FilterKind(local(x.AnyType))}
	var err error
	switch f.Kind {
	case TrueFilter, FalseFilter:
	case SQLFilter:
		f.SQL, err = x.sql()
	case CorrelationFilter:
		f.Correlation, err = x.correlation()
	default:
		err = fmt.Errorf("type %q is not SqlFilter, CorrelationFilter, TrueFilter or FalseFilter", x.AnyType)
	}
	return f, err
}

func (x *expressionXML) action() (*SQL, error) {
	if x == nil {
		return nil, nil
	}
	switch local(x.AnyType) {
	case emptyAction:
		return nil, nil
	case sqlAction:
		s, err := x.sql()
		return &s, err
	}
	return nil, fmt.Errorf("type %q is not SqlRuleAction or EmptyRuleAction", x.AnyType)
}

func (x *expressionXML) sql() (SQL, error) {
	if strings.TrimSpace(x.SqlExpression) == "" {
		return SQL{}, fmt.Errorf("SqlExpression: it is missing")
	}
	parameters, err := x.Parameters.read()
	if err != nil {
		return SQL{}, in("Parameters", err)
	}
	return SQL{Expression: x.SqlExpression, Parameters: parameters}, nil
}

func (x *expressionXML) correlation() (Correlation, error) {
	properties, err := x.Properties.read()
	if err != nil {
		return Correlation{}, in("Properties", err)
	}
	c := Correlation{
		ContentType: x.ContentType, CorrelationID: x.CorrelationId, Label: x.Label, MessageID: x.MessageId,
		ReplyTo: x.ReplyTo, ReplyToSessionID: x.ReplyToSessionId, SessionID: x.SessionId, To: x.To, Properties: properties,
	}
	if c.ContentType+c.CorrelationID+c.Label+c.MessageID+c.ReplyTo+c.ReplyToSessionID+c.SessionID+c.To == "" && len(properties) == 0 {
		return c, fmt.Errorf("CorrelationFilter: it sets nothing, so it would select nothing in particular")
	}
	return c, nil
}

// read answers nil where there are no values.
func (x *valuesXML) read() (map[string]any, error) {
	if x == nil || len(x.Values) == 0 {
		return nil, nil
	}
	values := make(map[string]any, len(x.Values))
	for _, v := range x.Values {
		if _, twice := values[v.Key]; twice || v.Key == "" {
			return nil, fmt.Errorf("%q: a name is missing or there twice", v.Key)
		}
		value, err := readValue(local(v.Value.AnyType), v.Value.Text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", v.Key, err)
		}
		values[v.Key] = value
	}
	return values, nil
}

func readValue(kind, text string) (value any, err error) {
	switch kind {
	case "string":
		return text, nil
	case "boolean":
		value, err = strconv.ParseBool(text)
	case "byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt":
		value, err = strconv.ParseInt(text, 10, 64)
	case "float", "double", "decimal":
		value, err = strconv.ParseFloat(text, 64)
	case "dateTime":
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, text)
		value = t.UTC()
	default:
		return nil, fmt.Errorf("type %q is not string, boolean, int, long, double or dateTime", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not of type %s", text, kind)
	}
	return value, nil
}

func describeRule(r Rule, createdAt string) *ruleXML {
	x := &ruleXML{
		Space: busSpace, InstanceSpace: instanceSpace, Name: r.Name, CreatedAt: createdAt,
		Filter: describeFilter(r.Filter), Action: &expressionXML{Type: emptyAction},
	}
	if r.Action != nil {
		x.Action = describeSQL(sqlAction, *r.Action)
	}
	return x
}

func describeFilter(f Filter) *expressionXML {
	switch f.Kind {
	case FalseFilter:
		return &expressionXML{Type: string(f.Kind), SqlExpression: "1=0"}
	case SQLFilter:
		return describeSQL(string(f.Kind), f.SQL)
	case CorrelationFilter:
		c := f.Correlation
		return &expressionXML{
			Type: string(f.Kind), CorrelationId: c.CorrelationID, MessageId: c.MessageID, To: c.To, ReplyTo: c.ReplyTo,
			Label: c.Label, SessionId: c.SessionID, ReplyToSessionId: c.ReplyToSessionID, ContentType: c.ContentType,
			Properties: describeValues(c.Properties),
		}
	}
	return &expressionXML{Type: string(TrueFilter), SqlExpression: "1=1"}
}

func describeSQL(kind string, s SQL) *expressionXML {
	return &expressionXML{Type: kind, SqlExpression: s.Expression, Parameters: describeValues(s.Parameters)}
}

func describeValues(values map[string]any) *valuesXML {
	if len(values) == 0 {
		return nil
	}
	x := &valuesXML{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		kind, text := describeValue(values[key])
		v := valueXML{Key: key}
		// The Node SDK takes five characters of the type for its prefix.
		v.Value.Type, v.Value.TypeSpace, v.Value.Text = "d6p1:"+kind, typeSpace, text
		x.Values = append(x.Values, v)
	}
	return x
}

// describeValue writes every whole number as an int: the SDKs do not read the other types.
func describeValue(value any) (kind, text string) {
	switch v := value.(type) {
	case bool:
		return "boolean", strconv.FormatBool(v)
	case int, int32, int64:
		return "int", fmt.Sprint(v)
	case float64:
		return "double", strconv.FormatFloat(v, 'g', -1, 64)
	case time.Time:
		return "dateTime", v.UTC().Format(time.RFC3339Nano)
	}
	return "string", fmt.Sprint(value)
}

// local cuts off a prefix.
func local(name string) string { return name[strings.LastIndex(name, ":")+1:] }

// in names the element that an error is about.
func in(element string, err error) error { return fmt.Errorf("%s: %w", element, err) }
