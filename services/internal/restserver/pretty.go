package restserver

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// prettyParam is the query parameter of every route that asks for indented JSON, or for JSON on one line.
const prettyParam = "pretty"

// terminals are the programs that people read JSON with, as their User-Agent begins. No server can see whether a terminal is at the other
// end; these programs are the nearest to it. A script that wants one line says Accept: application/json, or ?pretty=false.
var terminals = []string{"curl/", "Wget/"}

// Pretty is the writer that an answer goes through, which indents its JSON where the caller wants that. Finish sends what it holds, once
// the answer is whole. The request comes back without the parameter that says so, which no route knows, and refused where its value is
// none.
func Pretty(w http.ResponseWriter, r *http.Request) (out http.ResponseWriter, without *http.Request, finish func(), refused *fault.Error) {
	wanted, query, refused := indented(r)
	without = new(http.Request)
	*without = *r
	address := *r.URL
	address.RawQuery, without.URL = query, &address
	if !wanted {
		return w, without, func() {}, refused
	}
	indenting := &indenter{ResponseWriter: w}
	return indenting, without, indenting.finish, refused
}

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

// Compact writes JSON on one line, without the blanks that protojson varies from build to build, and ends it as text ends.
type Compact struct{ *runtime.JSONPb }

// NewCompact is how bodies are read and written. Lists and plain values are there even when empty, so that callers need no special cases.
func NewCompact(ignoreUnknown bool) Compact {
	return Compact{&runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{EmitDefaultValues: true},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: ignoreUnknown},
	}}
}

// Marshal implements runtime.Marshaler.
func (c Compact) Marshal(value any) ([]byte, error) {
	loose, err := c.JSONPb.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tight bytes.Buffer
	tight.Grow(len(loose) + 1)
	if err := json.Compact(&tight, loose); err != nil {
		return nil, err
	}
	tight.WriteByte('\n')
	return tight.Bytes(), nil
}
