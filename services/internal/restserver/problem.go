package restserver

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
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

var badTimeout = regexp.MustCompile(`^invalid grpc-timeout`)

// Pointed finds which part of a request a refusal of the gateway's own readers is about. Bodies, queries and paths were read before it,
// so that headers remain.
func Pointed(err *fault.Error) *fault.Error {
	if err.Reason != fault.InvalidArgument || len(err.Fields) > 0 {
		return err
	}
	if badTimeout.MatchString(strings.ToLower(err.Detail)) {
		return fault.Invalid("#/Grpc-Timeout", "must be digits and a unit of H, M, S, m, u or n, as in 5S")
	}
	return fault.New(fault.InvalidArgument, "the request cannot be read; nothing was done").WithCause(err)
}
