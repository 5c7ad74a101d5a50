package management

import (
	"math"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// answer is a response that carries one value, or none if it has no key.
func answer(key string, value any) Response {
	r := Response{Status: statusOK, Description: "OK"}
	if key != "" {
		r.Body = amqp.Map{{Key: key, Value: value}}
	}
	return r
}

func text(m amqp.Map, key string) (string, bool) {
	v, _ := m.Get(key)
	s, ok := v.(string)
	return s, ok
}

func integer(m amqp.Map, key string) (int64, bool) {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	}
	return 0, false
}

func uuids(m amqp.Map, key string) ([]amqp.UUID, bool) {
	items := list(m, key)
	tokens := make([]amqp.UUID, 0, len(items))
	for _, item := range items {
		token, ok := item.(amqp.UUID)
		if !ok {
			return nil, false
		}
		tokens = append(tokens, token)
	}
	return tokens, len(tokens) > 0
}

// list reads an array or a list.
func list(m amqp.Map, key string) []any {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case amqp.Array:
		return v.Items
	case amqp.List:
		return v
	}
	return nil
}

// longs reads sequence numbers.
func longs(m amqp.Map, key string) ([]int64, bool) {
	items := list(m, key)
	numbers := make([]int64, 0, len(items))
	for _, item := range items {
		n, ok := item.(int64)
		if !ok {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, len(numbers) > 0
}
