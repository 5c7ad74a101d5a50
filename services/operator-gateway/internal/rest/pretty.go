package rest

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// prettyParam is the query parameter of every route that asks for indented JSON, or for JSON on one line.
const prettyParam = "pretty"

// terminals are the programs that people read JSON with, as their User-Agent begins. No server can see whether a terminal is at the other
// end; these programs are the nearest to it. A script that wants one line says Accept: application/json, or ?pretty=false.
var terminals = []string{"curl/", "Wget/"}

// indented reports whether a caller gets indented JSON, and gives the query without the parameter that says so, which no route knows.
func indented(r *http.Request) (wanted bool, query string, refused *fault.Error) {
	wanted = fromTerminal(r.Header)
	if !strings.Contains(r.URL.RawQuery, prettyParam) {
		return wanted, r.URL.RawQuery, nil
	}
	var others []string
	for _, part := range strings.Split(r.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case name != prettyParam:
			others = append(others, part)
		case value == "" || value == "true" || value == "1":
			wanted = true
		case value == "false" || value == "0":
			wanted = false
		default:
			refused = fault.Invalid("#/"+prettyParam, "must be true or false")
		}
	}
	return wanted, strings.Join(others, "&"), refused
}

func fromTerminal(header http.Header) bool {
	if accept := header.Get("Accept"); accept != "" && accept != "*/*" {
		return false
	}
	agent := header.Get("User-Agent")
	for _, program := range terminals {
		if strings.HasPrefix(agent, program) {
			return true
		}
	}
	return false
}

// indenter is an answer whose JSON is indented once it is whole. Lines of JSON and other content pass through as they are written.
type indenter struct {
	http.ResponseWriter
	begun, held bool
	status      int
	body        bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (i *indenter) WriteHeader(status int) {
	if i.begun {
		return
	}
	kind, _, _ := mime.ParseMediaType(i.Header().Get("Content-Type"))
	i.begun, i.status = true, status
	if i.held = kind == "application/json" || kind == "application/problem+json"; i.held {
		i.Header().Del("Content-Length")
		return
	}
	i.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (i *indenter) Write(content []byte) (int, error) {
	if !i.begun {
		i.WriteHeader(http.StatusOK)
	}
	if i.held {
		return i.body.Write(content)
	}
	return i.ResponseWriter.Write(content)
}

// Unwrap lets http.ResponseController reach what is below.
func (i *indenter) Unwrap() http.ResponseWriter { return i.ResponseWriter }

// finish sends what was held, indented, and with a newline at its end. A caller that went away needs no answer.
func (i *indenter) finish() {
	if !i.held {
		return
	}
	i.ResponseWriter.WriteHeader(i.status)
	var out bytes.Buffer
	if json.Indent(&out, bytes.TrimSpace(i.body.Bytes()), "", "  ") != nil {
		out = i.body
	} else if out.Len() > 0 {
		out.WriteByte('\n')
	}
	_, _ = i.ResponseWriter.Write(out.Bytes())
}
