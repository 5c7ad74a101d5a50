package filter

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// truth is a value of three-valued logic: AND is the lesser, OR the greater, NOT the negative.
type truth int8

const (
	no      truth = -1
	unknown truth = 0
	yes     truth = 1
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// maxText bounds what concatenation can make, so that no action fills the memory.
const maxText = 64 << 10

// timespan is how Service Bus writes a length of time, in units of 100 ns.
const timespan = amqp.Symbol("com.microsoft:timespan")

// normal brings a property's value to one of the types that operators know: nil, which is unknown to them, bool, int64,
// float64, string, time.Time, time.Duration and amqp.UUID. Any other comes back as it is, and operators take it for unknown.
func normal(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		if v > math.MaxInt64 {
			return float64(v)
		}
		return int64(v)
	case float32:
		return float64(v)
	case amqp.Symbol:
		return string(v)
	case amqp.Char:
		return string(rune(v))
	case amqp.Described:
		return described(v)
	}
	return v
}

func described(v amqp.Described) any {
	switch ticks, ok := v.Value.(int64); {
	case ok && v.Descriptor == timespan && ticks > math.MinInt64/100 && ticks < math.MaxInt64/100:
		return time.Duration(ticks * 100)
	case v.Descriptor == amqp.Symbol("com.microsoft:uri"):
		if uri, ok := v.Value.(string); ok {
			return uri
		}
	}
	return v
}

// wire is a value as a message can carry it.
func wire(v any) any {
	if d, ok := v.(time.Duration); ok {
		return amqp.Described{Descriptor: timespan, Value: int64(d / 100)}
	}
	return v
}

// compare answers how two values stand to each other, whether that is more than equal or not, and whether they
// can be compared at all.
func compare(a, b any) (order int, ordered, ok bool) {
	a, b = normal(a), normal(b)
	if x, y, ok := pair[int64](a, b); ok {
		return cmp.Compare(x, y), true, true
	}
	if x, y, ok := floats(a, b); ok {
		return cmp.Compare(x, y), true, !math.IsNaN(x) && !math.IsNaN(y)
	}
	if x, y, ok := pair[string](a, b); ok {
		return strings.Compare(x, y), true, true
	}
	if x, y, ok := pair[time.Time](a, b); ok {
		return x.Compare(y), true, true
	}
	if x, y, ok := pair[time.Duration](a, b); ok {
		return cmp.Compare(x, y), true, true
	}
	if x, y, ok := pair[bool](a, b); ok {
		return different(x == y), false, true
	}
	return compareIDs(a, b)
}

// compareIDs compares UUIDs, also with text, for which there is no literal otherwise.
func compareIDs(a, b any) (order int, ordered, ok bool) {
	_, aIs := a.(amqp.UUID)
	_, bIs := b.(amqp.UUID)
	x, xOK := textOf(a)
	y, yOK := textOf(b)
	if (aIs || bIs) && xOK && yOK {
		return different(strings.EqualFold(x, y)), false, true
	}
	return 0, false, false
}

func different(same bool) int {
	if same {
		return 0
	}
	return 1
}

func equals(a, b any) truth {
	order, _, ok := compare(a, b)
	if !ok {
		return unknown
	}
	return truthOf(order == 0)
}

func pair[T any](a, b any) (x, y T, ok bool) {
	x, xOK := a.(T)
	y, yOK := b.(T)
	return x, y, xOK && yOK
}

func floats(a, b any) (x, y float64, ok bool) {
	x, xOK := number(a)
	y, yOK := number(b)
	return x, y, xOK && yOK
}

// textOf writes a value as C# does.
func textOf(v any) (string, bool) {
	switch v := normal(v).(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'G', -1, 64), true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	case amqp.UUID:
		return v.String(), true
	}
	return "", false
}

// arithmetic computes a + b and the like, or answers nil where that means nothing.
func arithmetic(operator string, a, b any) any {
	a, b = normal(a), normal(b)
	_, aText := a.(string)
	_, bText := b.(string)
	if aText || bText {
		return concatenate(operator, a, b)
	}
	if x, y, ok := pair[int64](a, b); ok {
		return integers(operator, x, y)
	}
	if x, y, ok := floats(a, b); ok {
		switch operator {
		case "+":
			return x + y
		case "-":
			return x - y
		case "*":
			return x * y
		case "/":
			return x / y
		}
		return math.Mod(x, y)
	}
	return times(operator, a, b)
}

func concatenate(operator string, a, b any) any {
	x, xOK := textOf(a)
	y, yOK := textOf(b)
	if operator != "+" || !xOK || !yOK || len(x)+len(y) > maxText {
		return nil
	}
	return x + y
}

// integers wraps around like C# does unchecked.
func integers(operator string, x, y int64) any {
	switch operator {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	if y == 0 || x == math.MinInt64 && y == -1 {
		return nil
	}
	if operator == "/" {
		return x / y
	}
	return x % y
}

func times(operator string, a, b any) any {
	sign := time.Duration(1)
	switch operator {
	case "+":
	case "-":
		sign = -1
	default:
		return nil
	}
	if x, y, ok := pair[time.Duration](a, b); ok {
		return x + sign*y
	}
	if x, y, ok := pair[time.Time](a, b); ok && sign < 0 {
		return x.Sub(y)
	}
	if at, ok := a.(time.Time); ok {
		if d, ok := b.(time.Duration); ok {
			return at.Add(sign * d)
		}
	}
	return nil
}

func negative(v any) any {
	switch v := normal(v).(type) {
	case int64:
		return -v
	case float64:
		return -v
	case time.Duration:
		return -v
	}
	return nil
}

func positive(v any) any {
	v = normal(v)
	if _, ok := number(v); ok {
		return v
	}
	return nil
}
