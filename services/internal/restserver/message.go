package restserver

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// Reading is one request as it was read: what the caller wrote, and where.
type Reading struct {
	// Body is the body in the form that protojson reads: enums by their whole names, durations in seconds. Nil where there was none.
	Body []byte
	// Empty are the lists that the caller wrote without an item or as null, which protobuf does not tell from absent ones.
	Empty []EmptyList
	// names are the names that the caller wrote, by the pointer to the field as the contract has it in JSON, where they differ.
	names map[string]string
}

// EmptyList is a list that was written without an item, or as null.
type EmptyList struct {
	Field   protoreflect.FullName
	Pointer string // as the caller wrote the names
}

// ReadMessage checks a body, which is JSON, against the message that it is read into. Given are the fields that the path gave; they
// may not be there again. With ignoreUnknown, as agents are read, fields that the message does not have are passed over, and no error
// repeats a value. No error ever repeats a field of the kind string, since it may be a secret.
func ReadMessage(body []byte, into protoreflect.MessageDescriptor, given []protoreflect.FieldDescriptor, ignoreUnknown bool) (*Reading, *fault.Error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return &Reading{}, nil
	}
	r := &reader{body: body, given: given, ignoreUnknown: ignoreUnknown, names: map[string]string{}}
	if err := r.message(into, place{}); err != nil {
		return nil, err
	}
	return &Reading{Body: r.edited(), Empty: r.empty, names: r.names}, nil
}

// Sent is an error with its pointers as the caller wrote the names.
func (r *Reading) Sent(err *fault.Error) *fault.Error {
	if r == nil || len(r.names) == 0 {
		return err
	}
	return Renamed(err, r.pointer)
}

// Renamed is an error with other pointers, also where its detail begins with one or has one after a semicolon.
func Renamed(err *fault.Error, rename func(pointer string) string) *fault.Error {
	renamed := *err
	renamed.Fields = slices.Clone(err.Fields)
	for i, field := range renamed.Fields {
		if pointer := rename(field.Pointer); pointer != field.Pointer {
			renamed.Fields[i].Pointer = pointer
			renamed.Detail = strings.TrimPrefix(strings.Replace("; "+renamed.Detail, "; "+field.Pointer+":", "; "+pointer+":", 1), "; ")
		}
	}
	return &renamed
}

// pointer is a pointer with the names that the caller wrote.
func (r *Reading) pointer(pointer string) string {
	var canonical, sent string
	for segment := range segments(pointer) {
		canonical += "/" + segment
		if name, other := r.names[canonical]; other {
			segment = escape(name)
		}
		sent += "/" + segment
	}
	return sent
}

// segments are the parts of a pointer between its slashes.
func segments(pointer string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, segment := range bytes.Split([]byte(pointer), []byte("/")) {
			if i > 0 && !yield(string(segment)) {
				return
			}
		}
	}
}

// place is where a value stands: as the caller wrote the names on the way there, and as the contract has them.
type place struct{ sent, canonical string }

func (p place) item(i int) place {
	return place{p.sent + "/" + strconv.Itoa(i), p.canonical + "/" + strconv.Itoa(i)}
}

// edit is one value that protojson reads in another form.
type edit struct {
	start, end int
	text       []byte
}

// reader walks through a body, which is valid JSON.
type reader struct {
	body          []byte
	at            int
	given         []protoreflect.FieldDescriptor
	ignoreUnknown bool
	names         map[string]string
	edits         []edit
	empty         []EmptyList
}

func (r *reader) edited() []byte {
	if len(r.edits) == 0 {
		return r.body
	}
	var out []byte
	from := 0
	for _, e := range r.edits {
		out = append(append(out, r.body[from:e.start]...), e.text...)
		from = e.end
	}
	return append(out, r.body[from:]...)
}

// next is the first byte of the value or sign that comes next.
func (r *reader) next() byte {
	for r.at < len(r.body) && bytes.IndexByte([]byte(" \t\r\n,:"), r.body[r.at]) >= 0 {
		r.at++
	}
	if r.at == len(r.body) {
		return 0
	}
	return r.body[r.at]
}

// scalar is the text of the value that comes next, which is neither an object nor a list.
func (r *reader) scalar() []byte {
	start := r.at
	if r.body[r.at] == '"' {
		for r.at++; r.body[r.at] != '"'; r.at++ {
			if r.body[r.at] == '\\' {
				r.at++
			}
		}
		r.at++
		return r.body[start:r.at]
	}
	for r.at < len(r.body) && bytes.IndexByte([]byte(" \t\r\n,:]}"), r.body[r.at]) < 0 {
		r.at++
	}
	return r.body[start:r.at]
}

func isContainer(first byte) bool { return first == '{' || first == '[' }

// message reads an object into a message.
func (r *reader) message(into protoreflect.MessageDescriptor, at place) *fault.Error {
	if r.next() != '{' {
		return BadBody(at.sent, "must be an object")
	}
	seen := map[protoreflect.FullName]string{}
	return r.members(at, func(name string, at place) *fault.Error {
		field := fieldNamed(into, name)
		if field == nil && !r.ignoreUnknown {
			return BadBody(at.sent, "is not a field that is known here; there are %s", fieldNames(into, r.given))
		}
		if field == nil {
			return r.skip(at)
		}
		at.canonical = at.canonical[:len(at.canonical)-len(escape(name))] + escape(field.JSONName())
		if name != field.JSONName() {
			r.names[at.canonical] = name
		}
		if slices.Contains(r.given, field) {
			return fault.Invalid(at.sent, "is given by the path, and cannot be given again")
		}
		if other, twice := seen[field.FullName()]; twice {
			if other == name {
				return BadBody(at.sent, "is given twice")
			}
			return BadBody(at.sent, "is the same as %s; give one of them", other)
		}
		seen[field.FullName()] = name
		if choice := field.ContainingOneof(); choice != nil && !choice.IsSynthetic() && r.next() != 'n' {
			if other, twice := seen[choice.FullName()]; twice {
				return BadBody(at.sent, "cannot be given together with %s", other)
			}
			seen[choice.FullName()] = name
		}
		return r.field(field, at)
	})
}

// members goes through the members of the object that comes next.
func (r *reader) members(at place, member func(name string, at place) *fault.Error) *fault.Error {
	r.at++
	for r.next() != '}' {
		raw := r.scalar()
		var name string
		_ = json.Unmarshal(raw, &name) // the body is valid
		below := place{at.sent + "/" + escape(name), at.canonical + "/" + escape(name)}
		if detail := checkText(raw); detail != "" {
			return BadBody(below.sent, "has a name that %s", detail)
		}
		r.next()
		if err := member(name, below); err != nil {
			return err
		}
	}
	r.at++
	return nil
}

// items goes through the items of the list that comes next.
func (r *reader) items(at place, item func(at place) *fault.Error) *fault.Error {
	r.at++
	for i := 0; r.next() != ']'; i++ {
		if err := item(at.item(i)); err != nil {
			return err
		}
	}
	r.at++
	return nil
}

// skip passes over a value, whose texts must be texts all the same.
func (r *reader) skip(at place) *fault.Error {
	switch r.next() {
	case '{':
		return r.members(at, func(_ string, at place) *fault.Error { return r.skip(at) })
	case '[':
		return r.items(at, r.skip)
	}
	if detail := checkText(r.scalar()); detail != "" {
		return BadBody(at.sent, "%s", detail)
	}
	return nil
}

// field reads the value of a field; null stands for none.
func (r *reader) field(field protoreflect.FieldDescriptor, at place) *fault.Error {
	first, start := r.next(), r.at
	switch {
	case first == 'n' && !takesNull(field):
		r.scalar()
		if field.IsList() {
			r.empty = append(r.empty, EmptyList{field.FullName(), at.sent})
		}
		return nil
	case field.IsMap() && first != '{':
		return BadBody(at.sent, "must be an object")
	case field.IsMap():
		return r.members(at, func(_ string, at place) *fault.Error { return r.value(field.MapValue(), at) })
	case field.IsList() && first != '[':
		return BadBody(at.sent, "must be a list")
	case field.IsList():
		r.at++
		if r.next() == ']' {
			r.empty = append(r.empty, EmptyList{field.FullName(), at.sent})
		}
		r.at = start
		return r.items(at, func(at place) *fault.Error { return r.value(field, at) })
	}
	return r.value(field, at)
}

// value reads one value of a field, which is one item of its list where it is repeated.
func (r *reader) value(field protoreflect.FieldDescriptor, at place) *fault.Error {
	first := r.next()
	if message := field.Message(); message != nil && !wellKnown(message) {
		if first == 'n' {
			return BadBody(at.sent, "must be an object, and is null")
		}
		return r.message(message, at)
	}
	start := r.at
	if isContainer(first) {
		if err := r.skip(at); err != nil {
			return err
		}
	} else if detail := checkText(r.scalar()); detail != "" {
		return BadBody(at.sent, "%s", detail)
	}
	raw := r.body[start:r.at]
	text := canonical(field, raw)
	if text == nil {
		return BadBody(at.sent, "%s", mustBe(field, raw, !r.ignoreUnknown))
	}
	if !bytes.Equal(text, raw) {
		r.edits = append(r.edits, edit{start, r.at, text})
	}
	return nil
}

func fieldNamed(message protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if field := message.Fields().ByJSONName(name); field != nil {
		return field
	}
	return message.Fields().ByTextName(name)
}
