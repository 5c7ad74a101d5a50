package amqp

import "fmt"

// Error conditions of AMQP itself, as Service Bus uses them.
const (
	ErrInternal              Symbol = "amqp:internal-error"
	ErrNotFound              Symbol = "amqp:not-found"
	ErrUnauthorizedAccess    Symbol = "amqp:unauthorized-access"
	ErrDecode                Symbol = "amqp:decode-error"
	ErrResourceLimitExceeded Symbol = "amqp:resource-limit-exceeded"
	ErrNotAllowed            Symbol = "amqp:not-allowed"
	ErrInvalidField          Symbol = "amqp:invalid-field"
	ErrNotImplemented        Symbol = "amqp:not-implemented"
	ErrConnectionForced      Symbol = "amqp:connection:forced"
	ErrFraming               Symbol = "amqp:connection:framing-error"
	ErrWindowViolation       Symbol = "amqp:session:window-violation"
	ErrHandleInUse           Symbol = "amqp:session:handle-in-use"
	ErrUnattachedHandle      Symbol = "amqp:session:unattached-handle"
	ErrDetachForced          Symbol = "amqp:link:detach-forced"
	ErrMessageSizeExceeded   Symbol = "amqp:link:message-size-exceeded"
)

// Error is an error as AMQP carries it.
type Error struct {
	Condition   Symbol
	Description string
	Info        Map
}

// Errorf makes an error with a formatted description.
func Errorf(condition Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return string(e.Condition) + ": " + e.Description }

const descriptorError = 0x1d

func appendError(dst []byte, e *Error) []byte {
	if e == nil {
		return appendNull(dst)
	}
	dst, mark := beginComposite(dst, descriptorError)
	dst = appendString(appendSymbol(dst, e.Condition), e.Description)
	if len(e.Info) == 0 {
		return end32(dst, mark, 2)
	}
	return end32(appendAnnotations(dst, e.Info), mark, 3)
}

// error reads a field that holds an error.
func (f *fields) error() *Error {
	if !f.has() {
		return nil
	}
	if d := f.descriptor(); f.err == nil && d != descriptorError {
		f.fail(fmt.Errorf("amqp: expected an error, found descriptor 0x%02x", d))
		return nil
	}
	inner := f.fields()
	e := &Error{Condition: Symbol(inner.text()), Description: inner.text(), Info: inner.mapping()}
	if inner.err != nil {
		f.fail(inner.err)
		return nil
	}
	return e
}

// fields of a nested composite.
func (f *fields) fields() fields { return f.reader.fields() }

// appendAnnotations appends a map whose string keys become symbols, as annotations and info maps require.
func appendAnnotations(dst []byte, m Map) []byte {
	dst, mark := begin32(dst, codeMap32)
	for _, e := range m {
		if key, ok := e.Key.(string); ok {
			dst = appendSymbol(dst, Symbol(key))
		} else {
			dst = AppendValue(dst, e.Key)
		}
		dst = AppendValue(dst, e.Value)
	}
	return end32(dst, mark, 2*len(m))
}
