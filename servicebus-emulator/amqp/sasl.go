package amqp

import "fmt"

const (
	descriptorMechanisms = 0x40
	descriptorInit       = 0x41
	descriptorOutcome    = 0x44
)

// SASL outcome codes.
const (
	SASLOK   = 0
	SASLAuth = 1 // authentication failed: wrong credentials
)

// SASLInit is a client's choice of mechanism.
type SASLInit struct {
	Mechanism       Symbol
	InitialResponse []byte
}

// AppendSASLMechanisms appends a whole frame offering mechanisms, best first.
func AppendSASLMechanisms(dst []byte, mechanisms ...Symbol) []byte {
	dst, frame := BeginFrame(dst, FrameSASL, 0)
	dst, mark := beginComposite(dst, descriptorMechanisms)
	array := Array{Code: codeSym32}
	for _, m := range mechanisms {
		array.Items = append(array.Items, m)
	}
	dst = AppendValue(dst, array)
	return EndFrame(end32(dst, mark, 1), frame)
}

// AppendSASLOutcome appends a whole frame with the result of authentication.
func AppendSASLOutcome(dst []byte, code uint8) []byte {
	dst, frame := BeginFrame(dst, FrameSASL, 0)
	dst, mark := beginComposite(dst, descriptorOutcome)
	dst = append(dst, codeUbyte, code)
	return EndFrame(end32(dst, mark, 1), frame)
}

// ParseSASLInit decodes the body of a client's sasl-init frame.
func ParseSASLInit(body []byte) (SASLInit, error) {
	r := reader{b: body}
	if d := r.descriptor(); r.err == nil && d != descriptorInit {
		return SASLInit{}, fmt.Errorf("amqp: expected sasl-init, found descriptor 0x%02x", d)
	}
	f := r.fields()
	init := SASLInit{Mechanism: Symbol(f.text())}
	init.InitialResponse = append([]byte(nil), f.binary()...)
	return init, firstError(r.err, f.err)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
