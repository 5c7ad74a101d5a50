package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// admit checks what is the same for every route, and reads the body.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Error) {
	// A server's ReadTimeout would go on after the body and end a command under way, so the deadline is set here, for the body.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(h.bodyTimeout)) // in-memory writers have none
	if err := h.crossOrigin.Check(r); err != nil {
		return nil, fault.New(fault.PermissionDenied, "calls from pages of another origin are refused; nothing was done").WithCause(err)
	}
	if h.loopbackOnly && !loopbackHost(r.Host) {
		return nil, fault.New(fault.PermissionDenied, "without a token file only loopback is served, and %q is not a loopback host; nothing was done", r.Host)
	}
	body, refused := readBody(w, r)
	if refused == nil {
		_ = connection.SetReadDeadline(time.Time{})
	}
	return body, refused
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || (err == nil && ip.IsLoopback())
}

// readBody reads the body whole: it must be one JSON value, or nothing.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.BodyTooLarge, "the body is larger than %d bytes; nothing was done", MaxBodyBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, badBody("", "did not arrive in time").WithCause(err)
	case err != nil:
		return nil, badBody("", "broke off").WithCause(err)
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	if refused := checkMediaType(r.Header); refused != nil {
		return nil, refused
	}
	var syntax *json.SyntaxError
	var discard json.RawMessage
	if err := json.Unmarshal(body, &discard); errors.As(err, &syntax) {
		return nil, badBody(pointerToBreak(body), "is not JSON: %v at byte %d", syntax, syntax.Offset)
	}
	return body, nil
}

// checkMediaType refuses bodies that say they are something else than JSON. Without a type, and with the one that curl -d sends
// of itself, the body is read as JSON all the same; pages of other origins, which could send it too, are refused before.
func checkMediaType(header http.Header) *fault.Error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fault.New(fault.UnsupportedMediaType, "the body is encoded as %q; send it as it is. Nothing was done", encoding)
	}
	given := header.Get("Content-Type")
	kind, parameters, err := mime.ParseMediaType(given)
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMediaType, "the body's character set is %q; JSON is UTF-8. Nothing was done", charset)
	}
	if given == "" || (err == nil && (kind == "application/json" || kind == "application/x-www-form-urlencoded")) {
		return nil
	}
	return fault.New(fault.UnsupportedMediaType, "the body is %q; send application/json. Nothing was done", given)
}

// badBody is a refusal of the body, or of the value in it that the pointer leads to.
func badBody(pointer, format string, args ...any) *fault.Error {
	invalid := fault.Invalid(pointer, format, args...)
	detail := invalid.Fields[0].Detail
	if pointer == "" {
		invalid.Detail = "the body " + detail + "; nothing was done"
	} else {
		invalid.Detail = "the body, at " + pointer + ", " + detail + "; nothing was done"
	}
	return invalid
}
