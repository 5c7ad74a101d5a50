package openapi

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order: readers of the document meet fields as the contract declares them.
type object []member

type member struct {
	name  string
	value any
}

// with appends a member.
func (o object) with(name string, value any) object { return append(o, member{name, value}) }

// withText appends a member unless its text is empty.
func (o object) withText(name, text string) object {
	if text == "" {
		return o
	}
	return o.with(name, text)
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		for j, part := range []any{one.name, one.value} {
			if j > 0 {
				out.WriteByte(':')
			}
			text, err := asJSON(part)
			if err != nil {
				return nil, err
			}
			out.Write(text)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// asJSON is a value as JSON, with <, > and & as they are.
func asJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}
