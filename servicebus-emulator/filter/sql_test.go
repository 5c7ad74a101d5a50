package filter

import (
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

var (
	noon  = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	oneID = amqp.UUID{0: 0xab, 15: 1}
)

func sample() *message {
	return &message{
		properties: amqp.Properties{
			MessageID: "m1", CorrelationID: uint64(7), ContentType: "json", Subject: "Order", To: "shop", GroupID: "g", HasGroupID: true,
		},
		application: amqp.Map{
			{Key: "Color", Value: "red"},
			{Key: "n", Value: int32(5)},
			{Key: "big", Value: uint64(1 << 63)},
			{Key: "f", Value: 2.5},
			{Key: "f32", Value: float32(0.5)},
			{Key: "flag", Value: true},
			{Key: "off", Value: false},
			{Key: "nothing", Value: nil},
			{Key: "id", Value: oneID},
			{Key: "at", Value: noon},
			{Key: "span", Value: amqp.Described{Descriptor: timespan, Value: int64(600_000_000)}},
			{Key: "bytes", Value: []byte("red")},
			{Key: "symbol", Value: amqp.Symbol("red")},
			{Key: "char", Value: amqp.Char('r')},
			{Key: "HR-Employee ID", Value: "x]y"},
			{Key: "AND", Value: int64(1)},
			{Key: "ünïcode_1", Value: "ü"},
			{Key: "rate", Value: "50%"},
			{Key: "which", Value: "color"},
		},
		system: map[SystemProperty]any{TimeToLive: time.Minute, EnqueuedTimeUtc: noon, PartitionKey: "pk", Size: int64(10)},
	}
}

var sampleParameters = map[string]any{
	"@text": "red", "int": 5, "Float": 2.5, "flag": true, "at": noon, "span": time.Minute, "id": oneID, "null": nil,
}

var outcomes = map[truth][]string{
	yes: {
		"1=1", "1 = 1.0", "1e3 = 1000", "101.5E5 = 10150000", "0.5E-2 = 0.005", "2. = 2", "1 <> 2", "1 != 2",
		"color = 'red'", "COLOR='red'", "user.color = 'red'", "USER.[color] = 'red'", `"color" = 'red'`, "Color = 'r' + 'ed'",
		"n = 5", "n < 6", "n <= 5", "n > 4.5", "n >= 5", "n + 1 = 6", "n - 1 * 2 = 3", "(n - 1) * 2 = 8", "n / 2 = 2", "n % 2 = 1",
		"n / 2.0 = f", "7.5 % 2 = 1.5", "-n = -5", "+n = 5", "- -n = 5", "n - -1 = 6", "big > 9223372036854770000", "f32 = 0.5",
		"-9223372036854775808 < 0", "9223372036854775807 + 1 < 0", "10 - 2 - 3 = 5", "2 + 3 * 4 = 14", "f = 2.5", "1.0 / 0 > 1e300",
		"'it''s' = 'it''s'", "'' = ''", "'a' < 'b'", "'B' < 'a'", "color <> 'Red'",
		"color + n = 'red5'", "'x' + 1.5 + TRUE = 'x1.5True'", "'' + id = 'ab000000-0000-0000-0000-000000000001'",
		"sys.label = 'Order'", "SYS.Subject = 'Order'", "sys.[Label] = 'Order'", "sys.MessageId = 'm1'", "sys.correlationid = '7'",
		"sys.ContentType LIKE 'j%'", "sys.To = 'shop'", "sys.SessionId = 'g'", "sys.PartitionKey = 'pk'", "sys.Size = 10",
		"sys.ReplyTo IS NULL", "NOT EXISTS(sys.ReplyToSessionId)", "EXISTS(sys.Label)", "sys.SequenceNumber IS NULL",
		"sys.TimeToLive = @span", "sys.EnqueuedTimeUtc = at", "sys.EnqueuedTimeUtc + sys.TimeToLive > @at", "at - sys.EnqueuedTimeUtc < @span",
		"span = @span", "span + span > @span", "-span < span", "at >= @at", "at - span < at",
		"flag", "flag = TRUE", "flag <> false", "NOT off", "NOT NOT flag", "true", "TRUE AND NOT FALSE", "(flag)", "@flag", "flag AND n = 5",
		"color LIKE 'r%'", "color LIKE '%e%'", "color LIKE 'r_d'", "color LIKE '%'", "color NOT LIKE 'R%'", "color LIKE '___'", "color LIKE 'red%%'",
		"rate LIKE '50!%' ESCAPE '!'", "rate NOT LIKE '5!%' ESCAPE '!'", "'a_b' LIKE 'a\\_b' ESCAPE '\\'", "'ABC%' LIKE 'ABC\\%' ESCAPE '\\'",
		"'mississippi' LIKE '%is%ip%'", "'' LIKE '%'", "'' LIKE ''", "'ü' LIKE '_'", "'a\nb' LIKE 'a%b'", "'%' LIKE '!%' ESCAPE '!'", "color LIKE color",
		"symbol = 'red'", "char = 'r'", "color LIKE char + '%'", "'aXb' LIKE 'a' + 'X' + 'b'",
		"color IN ('blue', 'red')", "n IN (1, 2 + 3)", "color NOT IN ('blue')", "color IN (missing, 'red')", "n IN (5.0)", "f NOT IN (1, 2)",
		"missing IS NULL", "nothing IS NULL", "color IS NOT NULL", "bytes IS NOT NULL", "user.missing is null", "property('missing') IS NULL",
		"EXISTS(color)", "exists ( user.color )", "EXISTS(nothing)", "EXISTS(bytes)", "NOT EXISTS(missing)", "EXISTS([HR-Employee ID])",
		"[HR-Employee ID] = 'x]y'", "[AND] = 1", "\"AND\" = 1", "ünïcode_1 = 'ü'", "property('color') = 'red'", "P('HR-Employee ID') = 'x]y'",
		"property(which) = 'red'", "p('co' + 'lor') = @text", "PROPERTY('flag')", "@INT = n", "@float = f", "color = @Text", "@text = 'red'",
		"id = 'AB000000-0000-0000-0000-000000000001'", "id = @id", "newid() <> newid()", "newid() = newid() OR TRUE", "newid() LIKE '%' OR 1=1",
		"color = 'blue' OR n = 5", "NOT color = 'blue'", "NOT (color = 'blue' AND n = 5)", "1=2 AND 1=1 OR 1=1", "1=1 OR 1=1 AND 1=2",
		"missing = 1 OR TRUE", "TRUE OR missing = 1", "NOT (missing = 1 AND FALSE)", " \t\n1\r\n= 1 ", "(((1)))=((1))",
		"MessageID='hello' OR MessageID IS NULL", "p = 1 OR property IS NULL", "user IS NULL", "set IS NULL AND remove IS NULL",
	},
	no: {
		"1=2", "color = 'Red'", "color <> 'red'", "n > 5", "flag <> TRUE", "off", "NOT flag", "FALSE", "color LIKE 're'", "color LIKE '_'",
		"color LIKE 'R%'", "color NOT LIKE '%d'", "color LIKE ''", "'' LIKE '_'", "color IN ('Red', 'x')", "color NOT IN ('red', missing)",
		"EXISTS(missing)", "color IS NULL", "nothing IS NOT NULL", "missing IS NOT NULL", "rate LIKE '50!_' ESCAPE '!'", "missing = 1 AND FALSE",
		"FALSE AND missing = 1", "NOT (missing = 1 OR TRUE)", "id = 'x'", "id <> @id", "1=2 OR 2=3", "newid() = 'x'", "at < @at", "'abc' LIKE 'abcd'",
		"'mississippi' LIKE '%is%ix%'", "nothing IS NOT NULL OR off",
	},
	unknown: {
		"missing = 1", "missing <> 1", "1 < missing", "NOT missing = 1", "nothing = NULL", "NULL = NULL", "NULL", "missing", "NOT missing",
		"missing + 1 = 1", "-missing = 1", "missing + 'a' = 'a'", "missing LIKE 'a'", "missing NOT LIKE 'a'", "color LIKE missing", "n LIKE '5'",
		"color LIKE '%' ESCAPE missing", "color LIKE rate + '!' ESCAPE '!'", "missing IN (1)", "missing NOT IN (1)", "color IN (missing)",
		"color NOT IN ('blue', missing)", "missing = 1 AND TRUE", "missing = 1 OR FALSE", "missing = 1 AND nothing = 1", "color = 5", "n = 'x'", "n <> 'x'",
		"color > 5", "flag < TRUE", "flag = 1", "bytes = 'red'", "bytes = bytes", "n / 0 = 1", "n % 0 = 1", "(-9223372036854775808) / -1 = 1", "color - 'r' = 'ed'",
		"color * 2 = 1", "-color = 'x'", "+color = 'red'", "+flag = 1", "flag + 1 = 2", "at = '2030-01-01'", "at + at > at", "at * 2 > at", "sys.ReplyTo = 'x'", "NOT sys.ReplyTo = 'x'",
		"sys.SequenceNumber > 0", "id < 'x'", "property(missing) = 1", "color", "@text = @null", "newid() < newid()", "0.0/0 = 1.0", "color + bytes = 'x'", "@null",
	},
}

func parse(t testing.TB, text string) *SQL {
	t.Helper()
	s, err := ParseSQL(text, sampleParameters)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestSQLOutcomes(t *testing.T) {
	m := sample()
	for want, expressions := range outcomes {
		for _, e := range expressions {
			s := parse(t, e)
			if got := s.truth(m); got != want || s.Matches(m) != (want == yes) {
				t.Errorf("%s is %d, want %d", e, got, want)
			}
			if s.String() != e {
				t.Errorf("%s is written as %s", e, s)
			}
		}
	}
}

var mistakes = []struct {
	text     string
	position int
	reason   string
}{
	{"", 1, "an expression is missing"},
	{"1 =", 4, "an expression is missing"},
	{"= 1", 1, `not "="`},
	{"a = = 1", 5, `not "="`},
	{"a = 1 b", 7, "an operator or the end"},
	{"a = 1 = 1", 7, "an operator or the end"},
	{"1 + 1", 1, "a condition is needed"},
	{"a AND 'x'", 7, "a condition is needed"},
	{"NOT 5", 5, "a condition is needed"},
	{"(a = 1) = TRUE", 2, "a value is needed"},
	{"(a = 1", 7, ") is missing"},
	{"a = 1)", 6, "an operator or the end"},
	{"a = 'x", 5, "no ' closes"},
	{"a = [x", 5, "no ] closes"},
	{`a = "x`, 5, `no " closes`},
	{"[] = 1", 1, "the name is empty"},
	{"a = #", 5, "'#'"},
	{"a ! b", 3, "'!'"},
	{"a = @", 5, "@ without"},
	{"a = @nope", 5, "@nope"},
	{"a = 9223372036854775808", 5, "64-bit"},
	{"a = 1e999", 5, "double"},
	{"a = 1e", 5, "exponent"},
	{"a = 5x", 6, "runs into"},
	{"sys.Nope = 1", 5, `"Nope"`},
	{"EXISTS(sys.x)", 12, `"x"`},
	{"other.a = 1", 1, "scope"},
	{"user. = 1", 7, "the name of a property"},
	{"AND = 1", 1, "[AND]"},
	{"user.like = 1", 6, "[like]"},
	{"a IS 1", 6, "NULL should be here"},
	{"5 IS NULL", 1, "only a property"},
	{"a NOT 5", 7, "IN or LIKE"},
	{"a IN 5", 6, "( should be here"},
	{"a IN ()", 7, "an expression"},
	{"a IN (1", 8, ") is missing"},
	{"a LIKE 5", 8, "not a string"},
	{"a LIKE 'x' ESCAPE 'ab'", 8, "one character"},
	{"a LIKE 'x!' ESCAPE '!'", 8, "escape character"},
	{"EXISTS(1)", 8, "the name of a property"},
	{"EXISTS a", 8, "( should be here"},
	{"upper(a) = 'A'", 1, `no function "upper"`},
	{"newid(1) = 1", 7, ") should be here"},
	{"property() = 1", 10, "an expression"},
	{"é = 'ü' ? 1", 9, "'?'"},
	{"a BETWEEN 1 AND 2", 3, "an operator or the end"},
	{strings.Repeat("x", 1025), 1025, "1025 characters"},
}

func TestSQLMistakesHaveAPosition(t *testing.T) {
	for _, c := range mistakes {
		_, err := ParseSQL(c.text, nil)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(syntax.Reason, c.reason) || !strings.HasPrefix(err.Error(), fmt.Sprintf("position %d: ", syntax.Position)) {
			t.Errorf("%q answers %v, want %s", c.text, err, c.reason)
			continue
		}
		if syntax.Position != c.position {
			t.Errorf("%q answers %v, want position %d", c.text, err, c.position)
		}
	}
	if _, err := ParseSQL("a = @p", map[string]any{"p": []byte{1}}); err == nil || !strings.Contains(err.Error(), "[]uint8") {
		t.Errorf("a parameter of bytes answers %v", err)
	}
	if _, err := ParseSQL(strings.Repeat("(", 510)+"1=1"+strings.Repeat(")", 511), nil); err == nil {
		t.Error("unbalanced parentheses are taken")
	}
	if s := parse(t, strings.Repeat("ü", 1020)+"='ü'"); s.Matches(sample()) { // characters count, not bytes
		t.Error("a missing property equals something")
	}
}

// condition is a random one, of any outcome.
type condition string

var atoms = []string{
	"1=1", "1=2", "missing = 1", "color = 'red'", "n > 5", "flag", "off", "NULL", "color LIKE '%x'", "n IN (1, missing)", "EXISTS(f)", "f IS NULL",
	"color = n", "nothing <> 'a'", "n / 0 = 1", "id = @id", "at < @at", "n NOT IN (4)",
}

// Generate makes a condition of a few levels.
func (condition) Generate(r *rand.Rand, _ int) reflect.Value { return reflect.ValueOf(random(r, 3)) }

func random(r *rand.Rand, depth int) condition {
	if depth == 0 || r.Intn(4) == 0 {
		return condition(atoms[r.Intn(len(atoms))])
	}
	a, b := random(r, depth-1), random(r, depth-1)
	return condition([]string{
		fmt.Sprintf("NOT (%s)", a), fmt.Sprintf("(%s) AND (%s)", a, b), fmt.Sprintf("(%s) OR (%s)", a, b), fmt.Sprintf("NOT %s", a),
	}[r.Intn(4)])
}

func TestSQLLaws(t *testing.T) {
	m := sample()
	same := func(left, right string, a, b, c condition) bool {
		fill := strings.NewReplacer("a", "("+string(a)+")", "b", "("+string(b)+")", "c", "("+string(c)+")")
		l, r := fill.Replace(left), fill.Replace(right)
		if len(l) > maxExpression || len(r) > maxExpression {
			return true
		}
		x, y := parse(t, l).truth(m), parse(t, r).truth(m)
		if x != y {
			t.Logf("%s is %d\n%s is %d", l, x, r, y)
		}
		return x == y
	}
	for left, right := range map[string]string{
		"NOT NOT a":      "a",
		"NOT (a AND b)":  "NOT a OR NOT b",
		"NOT (a OR b)":   "NOT a AND NOT b",
		"a AND b":        "b AND a",
		"a OR b":         "b OR a",
		"a AND b AND c":  "a AND (b AND c)",
		"a OR b OR c":    "a OR (b OR c)",
		"a OR b AND c":   "(a OR b) AND (a OR c)",
		"a AND (b OR c)": "a AND b OR a AND c",
		"a AND a":        "a",
		"a AND (a OR b)": "a",
	} {
		law := func(a, b, c condition) bool { return same(left, right, a, b, c) }
		if err := quick.Check(law, &quick.Config{MaxCount: 300, Rand: rand.New(rand.NewSource(1))}); err != nil {
			t.Errorf("%s is not %s: %v", left, right, err)
		}
	}
}

// What LIKE says is what trying every run for every % says.
func TestLikeAgainstTrying(t *testing.T) {
	var try func(p, s string) bool
	try = func(p, s string) bool {
		switch {
		case p == "":
			return s == ""
		case p[0] == '%':
			return try(p[1:], s) || s != "" && try(p, s[1:])
		}
		return s != "" && (p[0] == '_' || p[0] == s[0]) && try(p[1:], s[1:])
	}
	r := rand.New(rand.NewSource(1))
	pick := func(from string, n int) string {
		b := make([]byte, r.Intn(n))
		for i := range b {
			b[i] = from[r.Intn(len(from))]
		}
		return string(b)
	}
	for range 20000 {
		p, s := pick("ab%_%", 7), pick("ab", 9)
		l, err := compileLike(p, nil, false)
		if err != nil || l.matches(s) != try(p, s) {
			t.Fatalf("%q LIKE %q is %v, %v", s, p, l.matches(s), err)
		}
	}
}

func FuzzSQLFilter(f *testing.F) {
	for _, expressions := range outcomes {
		for _, e := range expressions {
			f.Add(e, "red", int64(5), 2.5)
		}
	}
	for _, c := range mistakes {
		f.Add(c.text, "", int64(-1<<63), 0.0)
	}
	f.Fuzz(func(t *testing.T, expression, text string, n int64, x float64) {
		s, err := ParseSQL(expression, sampleParameters)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Position < 1 || syntax.Position > len([]rune(expression))+1 {
				t.Fatalf("%q answers %v", expression, err)
			}
			return
		}
		other := &message{application: amqp.Map{{Key: "color", Value: text}, {Key: "n", Value: n}, {Key: "f", Value: x}, {Key: int32(1), Value: nil}}}
		for _, m := range []*message{sample(), other, {}} {
			s.Matches(m)
		}
		if again, err := ParseSQL(s.String(), sampleParameters); err != nil || again.String() != expression {
			t.Fatalf("%q is written as %q, %v", expression, s, err)
		}
	})
}
