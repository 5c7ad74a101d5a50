package restserver

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// Problem is the body of every error (RFC 9457), as operator.v1.Problem describes it.
type Problem struct {
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail"`
	Instance    string       `json:"instance"`
	Reason      string       `json:"reason"`
	Agent       string       `json:"agent,omitempty"`
	CommandID   string       `json:"commandId,omitempty"`
	Errors      []FieldError `json:"errors,omitempty"`
	CurrentEtag string       `json:"currentEtag,omitempty"`
}

// FieldError is one field at fault, as operator.v1.FieldError describes it.
type FieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// NewProblem is an error as callers see it.
func NewProblem(requestID string, err *fault.Error) Problem {
	body := Problem{
		Type: "urn:commandcenter:problem:" + strings.ToLower(string(err.Reason)), Title: err.Reason.Title(), Status: err.Reason.HTTPStatus(),
		Detail: err.Detail, Instance: "urn:commandcenter:request:" + requestID, Reason: string(err.Reason),
		Agent: err.Agent, CommandID: err.CommandID, CurrentEtag: err.CurrentEtag,
	}
	for _, field := range err.Fields {
		body.Errors = append(body.Errors, FieldError{field.Pointer, field.Detail})
	}
	return body
}

// WriteProblem answers with an error.
func WriteProblem(w http.ResponseWriter, requestID string, err *fault.Error) {
	problemHeader(w.Header(), err)
	w.WriteHeader(err.Reason.HTTPStatus())
	WriteLine(w, NewProblem(requestID, err))
}

func problemHeader(header http.Header, err *fault.Error) {
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	if after := err.RetryAfter(); after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if err.Reason == fault.Unauthenticated {
		header.Set("WWW-Authenticate", `Bearer realm="commandcenter"`)
	}
	if err.CurrentEtag != "" {
		header.Set("ETag", strconv.Quote(err.CurrentEtag))
	}
}

// WriteLine writes a value as one line of JSON. A caller that went away needs no answer.
func WriteLine(w interface{ Write([]byte) (int, error) }, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}
