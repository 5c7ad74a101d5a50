package management

import (
	"fmt"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Status codes of responses, as in HTTP.
const (
	statusOK             = 200
	statusAccepted       = 202
	statusNoContent      = 204
	statusBadRequest     = 400
	statusUnauthorized   = 401
	statusForbidden      = 403
	statusNotFound       = 404
	statusConflict       = 409
	statusGone           = 410
	statusInternal       = 500
	statusNotImplemented = 501
)

// Request is a decoded request.
type Request struct {
	Operation  string
	MessageID  any
	ReplyTo    string
	Properties amqp.Map // application properties
	Body       any
}

// Response is what a request is answered with.
type Response struct {
	Status      int32
	Description string
	Condition   amqp.Symbol // of a failure
	Body        any
}

// ParseRequest decodes a message into a request.
func ParseRequest(message []byte) (Request, error) {
	s, err := amqp.ParseSections(message)
	if err != nil {
		return Request{}, err
	}
	p, err := amqp.ParseProperties(s.Properties)
	if err != nil {
		return Request{}, err
	}
	r := Request{MessageID: p.MessageID, ReplyTo: p.ReplyTo}
	if r.Properties, err = amqp.ParseMap(s.ApplicationProperties); err != nil {
		return Request{}, err
	}
	if r.Operation = r.text("operation"); r.Operation == "" {
		return Request{}, fmt.Errorf("the request has no application property 'operation'")
	}
	if s.Body != nil {
		if r.Body, err = amqp.ValueSection(s.Body); err != nil {
			return Request{}, err
		}
	}
	return r, nil
}

func (r *Request) text(property string) string {
	v, _ := r.Properties.Get(property)
	s, _ := v.(string)
	return s
}

// Append appends the response to a request as a message.
func (r *Response) Append(dst []byte, to *Request) []byte {
	dst = amqp.AppendReplyProperties(dst, to.MessageID)
	properties := amqp.Map{
		{Key: "statusCode", Value: r.Status},
		{Key: "statusDescription", Value: r.Description},
	}
	if r.Condition != "" {
		properties = append(properties, amqp.MapEntry{Key: "errorCondition", Value: r.Condition})
	}
	dst = amqp.AppendApplicationProperties(dst, properties)
	return amqp.AppendValueSection(dst, r.Body)
}

func failure(status int32, condition amqp.Symbol, format string, args ...any) Response {
	return Response{Status: status, Condition: condition, Description: fmt.Sprintf(format, args...)}
}

// refusal maps the broker's error to a response.
func refusal(err *amqp.Error) Response {
	r := Response{Condition: err.Condition, Description: err.Description}
	switch err.Condition {
	case "com.microsoft:message-lock-lost", "com.microsoft:session-lock-lost":
		r.Status = statusGone
	case "com.microsoft:entity-already-exists":
		r.Status = statusConflict
	case "com.microsoft:message-not-found", amqp.ErrNotFound:
		r.Status = statusNotFound
	case amqp.ErrResourceLimitExceeded:
		r.Status = statusForbidden
	case amqp.ErrNotImplemented:
		r.Status = statusNotImplemented
	case amqp.ErrNotAllowed, amqp.ErrInvalidField, amqp.ErrDecode, amqp.ErrMessageSizeExceeded:
		r.Status = statusBadRequest
	default:
		r.Status = statusInternal
	}
	return r
}
