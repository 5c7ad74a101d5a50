package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// problem is the body of every error, as operator.v1.Problem describes it.
type problem struct {
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail"`
	Instance    string       `json:"instance"`
	Reason      string       `json:"reason"`
	Agent       string       `json:"agent,omitempty"`
	CommandID   string       `json:"commandId,omitempty"`
	Errors      []fieldError `json:"errors,omitempty"`
	CurrentEtag string       `json:"currentEtag,omitempty"`
}

type fieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// retryAfter is in seconds. It is said only where nothing was sent or changed.
const retryAfter = "5"

// writeProblem answers with an error.
func writeProblem(w http.ResponseWriter, requestID string, err *fault.Error) {
	body := problem{
		Type: "urn:commandcenter:problem:" + strings.ToLower(string(err.Reason)), Title: err.Reason.Title(), Status: err.Reason.HTTPStatus(),
		Detail: err.Detail, Instance: "urn:commandcenter:request:" + requestID, Reason: string(err.Reason),
		Agent: err.Agent, CommandID: err.CommandID, CurrentEtag: err.CurrentEtag,
	}
	for _, field := range err.Fields {
		body.Errors = append(body.Errors, fieldError{field.Pointer, field.Detail})
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	if err.Reason.NothingSent() {
		header.Set("Retry-After", retryAfter)
	}
	if err.Reason == fault.Unauthenticated {
		header.Set("WWW-Authenticate", `Bearer realm="commandcenter"`)
	}
	if err.CurrentEtag != "" {
		header.Set("ETag", strconv.Quote(err.CurrentEtag))
	}
	w.WriteHeader(body.Status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // a caller that went away needs no answer
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	position     = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	unknownQuery = regexp.MustCompile(`^query parameter "(.*)" is not known$`)
	pathParam    = regexp.MustCompile(`type mismatch, parameter: ([^,]+), error: (.*)`)
)

// pointed finds which field a refusal of the JSON reader is about, in the body as it was sent.
func pointed(ctx context.Context, err *fault.Error) *fault.Error {
	if err.Reason != fault.InvalidArgument || len(err.Fields) > 0 {
		return err
	}
	text := strings.ReplaceAll(err.Detail, "\u00a0", " ") // protobuf varies its blanks
	text = strings.TrimPrefix(text, "proto: ")
	if match := unknownQuery.FindStringSubmatch(text); match != nil {
		return fault.New(fault.InvalidArgument, "the query %s; nothing was done", strings.TrimPrefix(text, "query ")).WithField("#/"+escape(match[1]), "is not a parameter of this route")
	}
	if match := pathParam.FindStringSubmatch(text); match != nil {
		return fault.New(fault.InvalidArgument, "%s cannot be read: %s; nothing was done", match[1], match[2]).WithField("#/"+match[1], match[2])
	}
	pointer := ""
	if match := position.FindStringSubmatch(text); match != nil {
		line, _ := strconv.Atoi(match[1])
		column, _ := strconv.Atoi(match[2])
		pointer = pointerAt(bodyOf(ctx), line, column)
	}
	detail := strings.TrimSpace(position.ReplaceAllString(text, ""))
	detail = strings.TrimPrefix(detail, ": ")
	if match := unknownField.FindStringSubmatch(text); match != nil {
		detail = "there is no field of this name"
		if pointer == "" {
			pointer = "/" + escape(match[1])
		}
	}
	if pointer == "" {
		pointer = "/"
	}
	return fault.New(fault.InvalidArgument, "%s: %s; nothing was changed", pointer, detail).WithField(pointer, detail)
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
