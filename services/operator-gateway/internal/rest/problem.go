package rest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

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

func newProblem(requestID string, err *fault.Error) problem {
	body := problem{
		Type: "urn:commandcenter:problem:" + strings.ToLower(string(err.Reason)), Title: err.Reason.Title(), Status: err.Reason.HTTPStatus(),
		Detail: err.Detail, Instance: "urn:commandcenter:request:" + requestID, Reason: string(err.Reason),
		Agent: err.Agent, CommandID: err.CommandID, CurrentEtag: err.CurrentEtag,
	}
	for _, field := range err.Fields {
		body.Errors = append(body.Errors, fieldError{field.Pointer, field.Detail})
	}
	return body
}

// writeProblem answers with an error.
func writeProblem(w http.ResponseWriter, requestID string, err *fault.Error) {
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
	w.WriteHeader(err.Reason.HTTPStatus())
	writeLine(w, newProblem(requestID, err))
}

// writeLine writes a value as one line of JSON. A caller that went away needs no answer.
func writeLine(w http.ResponseWriter, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	position     = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	pathParam    = regexp.MustCompile(`type mismatch, parameter: ([^,]+), error:`)
	badTime      = regexp.MustCompile(`invalid (google\.protobuf\.\w+) value (".*")`)
	badTimeout   = regexp.MustCompile(`^invalid grpc-timeout`)
)

// typedParams says what those parameters of paths must be that are not just any text.
var typedParams = map[string]string{
	"id":   "a whole number",
	"path": "HEARTBEAT_PATH_BUS or HEARTBEAT_PATH_DIRECT",
}

// written says how times are written.
var written = map[protoreflect.FullName]string{
	"google.protobuf.Timestamp": "a time with its offset, such as 2026-03-29T01:30:00Z",
	"google.protobuf.Duration":  "seconds, such as 5400s",
}

// pointed finds which field a refusal of the gateway's own readers is about, in the request as it was sent.
func pointed(body []byte, err *fault.Error) *fault.Error {
	if err.Reason != fault.InvalidArgument || len(err.Fields) > 0 {
		return err
	}
	text := strings.ReplaceAll(err.Detail, "\u00a0", " ") // protobuf varies its blanks
	text = strings.TrimPrefix(text, "proto: ")
	if refused := asQueryError(text); refused != nil {
		return refused
	}
	if match := pathParam.FindStringSubmatch(text); match != nil {
		return fault.Invalid("#/"+match[1], "must be %s", typedParams[match[1]])
	}
	if badTimeout.MatchString(text) {
		return fault.Invalid("#/Grpc-Timeout", "must be digits and a unit of H, M, S, m, u or n, as in 5S")
	}
	pointer := ""
	if match := position.FindStringSubmatch(text); match != nil {
		line, _ := strconv.Atoi(match[1])
		column, _ := strconv.Atoi(match[2])
		pointer = pointerAt(body, line, column)
	}
	if match := unknownField.FindStringSubmatch(text); match != nil {
		if pointer == "" {
			pointer = "/" + escape(match[1])
		}
		return badBody(pointer, "is not a field that this route knows")
	}
	if match := badTime.FindStringSubmatch(text); match != nil {
		return badBody(pointer, "cannot be read from %s; must be %s", match[2], written[protoreflect.FullName(match[1])])
	}
	detail := strings.TrimPrefix(strings.TrimSpace(position.ReplaceAllString(text, "")), ": ")
	return badBody(pointer, "cannot be read: %s", detail)
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
