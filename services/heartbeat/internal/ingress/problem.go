package ingress

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// problem is the body of every error (RFC 9457), as the operators' gateway has it.
type problem struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail"`
	Instance string       `json:"instance"`
	Reason   string       `json:"reason"`
	Agent    string       `json:"agent,omitempty"`
	Errors   []fieldError `json:"errors,omitempty"`
}

type fieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// writeProblem answers with an error. A caller that went away needs no answer.
func writeProblem(w http.ResponseWriter, r *http.Request, err *fault.Error) {
	body := problem{
		Type: "urn:commandcenter:problem:" + strings.ToLower(string(err.Reason)), Title: err.Reason.Title(), Status: err.Reason.HTTPStatus(),
		Detail: err.Detail, Instance: "urn:commandcenter:request:" + r.Header.Get(grpcserver.RequestIDHeader), Reason: string(err.Reason), Agent: err.Agent,
	}
	for _, field := range err.Fields {
		body.Errors = append(body.Errors, fieldError{field.Pointer, field.Detail})
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if err.RetryDelay > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(err.RetryDelay.Seconds()))))
	}
	w.WriteHeader(err.Reason.HTTPStatus())
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
}
