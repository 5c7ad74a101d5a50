package amqp

import (
	"fmt"
	"time"
)

// Descriptors of the sections of a message (part 3, section 3.2).
const (
	sectionHeader                = 0x70
	sectionDeliveryAnnotations   = 0x71
	sectionMessageAnnotations    = 0x72
	sectionProperties            = 0x73
	sectionApplicationProperties = 0x74
	sectionData                  = 0x75
	sectionSequence              = 0x76
	sectionValue                 = 0x77
	sectionFooter                = 0x78
)

// Sections is a message cut at its section boundaries: every field is a slice of the message, without the
// section's descriptor except for Body, which is everything from the first body section to the end and can be
// sent on as it is. Absent sections are nil.
type Sections struct {
	Header                []byte
	Annotations           []byte
	Properties            []byte
	ApplicationProperties []byte
	Body                  []byte
}

// ParseSections cuts a message. The values inside the sections are checked for their extent only.
func ParseSections(message []byte) (Sections, error) {
	var s Sections
	r := reader{b: message}
	for r.err == nil && r.off < len(message) {
		start := r.off
		descriptor := r.descriptor()
		if r.err != nil {
			break
		}
		if descriptor >= sectionData && descriptor <= sectionFooter {
			s.Body = message[start:]
			return s, r.checkBody(start)
		}
		value := r.off
		r.skip(0)
		if r.err != nil {
			break
		}
		section := message[value:r.off]
		switch descriptor {
		case sectionHeader:
			s.Header = section
		case sectionDeliveryAnnotations: // hop by hop: not kept
		case sectionMessageAnnotations:
			s.Annotations = section
		case sectionProperties:
			s.Properties = section
		case sectionApplicationProperties:
			s.ApplicationProperties = section
		default:
			return s, fmt.Errorf("amqp: unknown message section 0x%02x", descriptor)
		}
	}
	return s, r.err
}

// checkBody walks the sections from the body on, so that a broken message is refused when it is sent and not
// when it is received.
func (r *reader) checkBody(start int) error {
	r.off = start
	for r.err == nil && r.off < len(r.b) {
		if d := r.descriptor(); r.err == nil && (d < sectionData || d > sectionFooter) {
			return fmt.Errorf("amqp: message section 0x%02x after the body", d)
		}
		r.skip(0)
	}
	return r.err
}

// DataSections calls each with the content of every data section of a body, in order, as slices of it.
func DataSections(body []byte, each func(data []byte) error) error {
	r := reader{b: body}
	for r.off < len(body) {
		descriptor := r.descriptor()
		if r.err == nil && descriptor == sectionFooter {
			r.skip(0)
			continue
		}
		if r.err == nil && descriptor != sectionData {
			return fmt.Errorf("amqp: expected a data section, found 0x%02x", descriptor)
		}
		data := r.variable("a binary")
		if r.err != nil {
			return r.err
		}
		if err := each(data); err != nil {
			return err
		}
	}
	return nil
}

// ValueSection decodes the value of a body that is one amqp-value section.
func ValueSection(body []byte) (any, error) {
	r := reader{b: body}
	if d := r.descriptor(); r.err == nil && d != sectionValue {
		return nil, fmt.Errorf("amqp: expected an amqp-value section, found 0x%02x", d)
	}
	v := r.value(0)
	return v, r.err
}

// Header is the header section.
type Header struct {
	Durable       bool
	Priority      uint8 // 4 where absent
	TTL           time.Duration
	HasTTL        bool
	FirstAcquirer bool
	DeliveryCount uint32
}

// ParseHeader decodes a header section; nil answers the defaults.
func ParseHeader(section []byte) (Header, error) {
	if section == nil {
		return Header{Priority: 4}, nil
	}
	r := reader{b: section}
	f := r.fields()
	h := Header{Durable: f.boolean(), Priority: f.ubyte(4)}
	ttl, ok := f.optionalUint()
	h.TTL, h.HasTTL = time.Duration(ttl)*time.Millisecond, ok
	h.FirstAcquirer = f.boolean()
	h.DeliveryCount = f.uint(0)
	return h, firstError(r.err, f.err)
}

// Append appends the whole section.
func (h Header) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, sectionHeader)
	dst = append(appendBool(dst, h.Durable), codeUbyte, h.Priority)
	if h.HasTTL {
		dst = appendUint(dst, uint32(h.TTL/time.Millisecond))
	} else {
		dst = appendNull(dst)
	}
	dst = appendBool(dst, h.FirstAcquirer)
	return end32(appendUint(dst, h.DeliveryCount), mark, 5)
}

// Properties is the properties section, as far as a broker looks at it. Ids can be a string, uint64, UUID or
// []byte.
type Properties struct {
	MessageID      any
	To             string
	Subject        string
	ReplyTo        string
	CorrelationID  any
	ContentType    string
	GroupID        string
	HasGroupID     bool
	ReplyToGroupID string
}

// ParseProperties decodes a properties section; nil answers none.
func ParseProperties(section []byte) (Properties, error) {
	if section == nil {
		return Properties{}, nil
	}
	r := reader{b: section}
	f := r.fields()
	p := Properties{MessageID: f.value()}
	f.skip() // user-id
	p.To = f.text()
	p.Subject = f.text()
	p.ReplyTo = f.text()
	p.CorrelationID = f.value()
	p.ContentType = f.text()
	f.skip() // content-encoding
	f.skip() // absolute-expiry-time
	f.skip() // creation-time
	if f.has() {
		p.GroupID, p.HasGroupID = string(f.variable("a string")), true
	}
	f.skip() // group-sequence
	p.ReplyToGroupID = f.text()
	return p, firstError(r.err, f.err)
}

// WithMessageID answers a properties section, or nil for none, with its first field, which is null or absent, set.
func WithMessageID(section []byte, id string) ([]byte, error) {
	var rest []byte
	count := 1
	if section != nil {
		r := reader{b: section}
		code := r.byte()
		if code == codeList8 || code == codeList32 {
			var body reader
			body, count = r.compound(code == codeList32)
			rest = body.rest()
		}
		if r.err != nil {
			return nil, r.err
		}
		if len(rest) > 0 && rest[0] != codeNull {
			return nil, fmt.Errorf("amqp: the message has an id, of type 0x%02x", rest[0])
		}
		rest, count = rest[min(1, len(rest)):], max(1, count)
	}
	dst, mark := begin32(make([]byte, 0, len(rest)+len(id)+11), codeList32)
	return end32(append(appendString(dst, id), rest...), mark, count), nil
}

// ParseMap decodes a section that is a map; nil answers none.
func ParseMap(section []byte) (Map, error) {
	if section == nil {
		return nil, nil
	}
	v, err := DecodeValue(section)
	if err != nil {
		return nil, err
	}
	m, ok := v.(Map)
	if !ok {
		return nil, fmt.Errorf("amqp: expected a map, found %T", v)
	}
	return m, nil
}

// IsEmptyMap says cheaply that a map section is absent or has no entries.
func IsEmptyMap(section []byte) bool {
	return section == nil || len(section) >= 3 && section[0] == codeMap8 && section[2] == 0 ||
		len(section) >= 9 && section[0] == codeMap32 && [4]byte(section[5:9]) == [4]byte{}
}

// BeginAnnotations opens a message-annotations section, to which the caller appends keys and values;
// EndAnnotations closes it with how many of them there are.
func BeginAnnotations(dst []byte) ([]byte, int) {
	dst = append(dst, codeDescribed, codeSmallUlong, sectionMessageAnnotations)
	return begin32(dst, codeMap32)
}

// EndAnnotations closes what BeginAnnotations opened.
func EndAnnotations(dst []byte, mark, count int) []byte { return end32(dst, mark, count) }

// AppendProperties appends the whole section around an encoded list.
func AppendProperties(dst, section []byte) []byte {
	return append(append(dst, codeDescribed, codeSmallUlong, sectionProperties), section...)
}

// AppendReplyProperties appends a properties section that holds a correlation id only.
func AppendReplyProperties(dst []byte, correlationID any) []byte {
	dst, mark := beginComposite(dst, sectionProperties)
	dst = append(dst, codeNull, codeNull, codeNull, codeNull, codeNull)
	return end32(AppendValue(dst, correlationID), mark, 6)
}

// AppendApplicationProperties appends the whole section.
func AppendApplicationProperties(dst []byte, m Map) []byte {
	dst = append(dst, codeDescribed, codeSmallUlong, sectionApplicationProperties)
	return AppendValue(dst, m)
}

// AppendValueSection appends a body that is one amqp-value section.
func AppendValueSection(dst []byte, v any) []byte {
	return AppendValue(append(dst, codeDescribed, codeSmallUlong, sectionValue), v)
}

// AppendEncodedApplicationProperties appends the whole section around an encoded map.
func AppendEncodedApplicationProperties(dst, section []byte) []byte {
	return append(append(dst, codeDescribed, codeSmallUlong, sectionApplicationProperties), section...)
}
