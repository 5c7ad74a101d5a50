package amqp

import "fmt"

// Outcome is the kind of a delivery's state.
type Outcome uint8

// Delivery states (part 3, section 3.4). NoOutcome is an absent state.
const (
	NoOutcome Outcome = 0
	Received  Outcome = 0x23
	Accepted  Outcome = 0x24
	Rejected  Outcome = 0x25
	Released  Outcome = 0x26
	Modified  Outcome = 0x27
)

// State is what became of a delivery.
type State struct {
	Outcome           Outcome
	Error             *Error // of Rejected
	DeliveryFailed    bool   // of Modified
	UndeliverableHere bool   // of Modified
	Annotations       Map    // of Modified
}

func (s State) append(dst []byte) []byte {
	switch s.Outcome {
	case NoOutcome:
		return appendNull(dst)
	case Rejected:
		dst, mark := beginComposite(dst, byte(Rejected))
		if s.Error == nil {
			return end32(dst, mark, 0)
		}
		return end32(appendError(dst, s.Error), mark, 1)
	case Modified:
		dst, mark := beginComposite(dst, byte(Modified))
		dst = appendBool(appendBool(dst, s.DeliveryFailed), s.UndeliverableHere)
		if len(s.Annotations) == 0 {
			return end32(dst, mark, 2)
		}
		return end32(appendAnnotations(dst, s.Annotations), mark, 3)
	}
	return append(dst, codeDescribed, codeSmallUlong, byte(s.Outcome), codeList0)
}

// state reads a field that holds a delivery state.
func (f *fields) state() State {
	if !f.has() {
		return State{}
	}
	descriptor := f.descriptor()
	inner := f.fields()
	s := State{Outcome: Outcome(descriptor)}
	switch descriptor {
	case uint64(Received), uint64(Accepted), uint64(Released):
	case uint64(Rejected):
		s.Error = inner.error()
	case uint64(Modified):
		s.DeliveryFailed = inner.boolean()
		s.UndeliverableHere = inner.boolean()
		s.Annotations = inner.mapping()
	default:
		f.fail(fmt.Errorf("amqp: unsupported delivery state 0x%02x", descriptor))
	}
	if inner.err != nil {
		f.fail(inner.err)
	}
	return s
}
