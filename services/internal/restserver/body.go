package restserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// Bodies is how the bodies of a listener's requests are read.
type Bodies struct {
	// MaxBytes is how large one may be.
	MaxBytes int64
	// Lenient takes a body without a type, and with the type that curl -d sends, as JSON.
	Lenient bool
}

// Read reads a request's body whole: it must be one JSON value, or nothing, which is nil.
func (b Bodies) Read(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.BodyTooLarge, "the body is larger than %d bytes; nothing was done", b.MaxBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.New(fault.RequestTimeout, "the body did not arrive in time; nothing was done").WithCause(err)
	case err != nil:
		return nil, BadBody("", "broke off").WithCause(err)
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	if refused := b.checkMediaType(r.Header); refused != nil {
		return nil, refused
	}
	return body, checkSyntax(body)
}

// checkMediaType refuses bodies that say they are something else than JSON. Pages of other origins, which could send the types that
// are taken leniently too, are refused before.
func (b Bodies) checkMediaType(header http.Header) *fault.Error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fault.New(fault.UnsupportedMediaType, "the body is encoded as %q; send it as it is. Nothing was done", encoding)
	}
	given := header.Get("Content-Type")
	kind, parameters, err := mime.ParseMediaType(given)
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMediaType, "the body's character set is %q; JSON is UTF-8. Nothing was done", charset)
	}
	switch {
	case err == nil && kind == "application/json":
		return nil
	case b.Lenient && (given == "" || (err == nil && kind == "application/x-www-form-urlencoded")):
		return nil
	}
	return fault.New(fault.UnsupportedMediaType, "the body is %q; send application/json. Nothing was done", given)
}

var byteOrderMark = []byte("\uFEFF")

// checkSyntax refuses what is not one JSON value.
func checkSyntax(body []byte) *fault.Error {
	if bytes.HasPrefix(body, byteOrderMark) {
		return BadBody("", "begins with a byte order mark (U+FEFF); send UTF-8 without one")
	}
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return BadBody("", "is compressed; send it as it is")
	}
	var discard json.RawMessage
	var broken *json.SyntaxError
	if err := json.Unmarshal(body, &discard); !errors.As(err, &broken) {
		return nil
	}
	at := max(int(broken.Offset)-1, 0)
	switch {
	case int(broken.Offset) >= len(body) && strings.Contains(broken.Error(), "unexpected end"):
		return BadBody(pointerToBreak(body), "is not JSON: it ends too early, after %d bytes", len(body))
	case strings.Contains(broken.Error(), "depth"):
		return BadBody("", "is nested too deeply")
	}
	unexpected, size := utf8.DecodeRune(body[at:])
	if unexpected == utf8.RuneError && size <= 1 {
		return BadBody(pointerToBreak(body), "is not JSON: at byte %d is one that is not UTF-8", at+1)
	}
	return BadBody(pointerToBreak(body), "is not JSON: unexpected %s at byte %d", printable(unexpected), at+1)
}

// printable shows one character, and its number where it cannot be seen.
func printable(letter rune) string {
	if letter < ' ' || letter > '~' {
		return fmt.Sprintf("character %U", letter)
	}
	return fmt.Sprintf("%q", letter)
}

// BadBody is a refusal of the body, or of the value in it that the pointer leads to.
func BadBody(pointer, format string, args ...any) *fault.Error {
	invalid := fault.Invalid(pointer, format, args...)
	detail := invalid.Fields[0].Detail
	if pointer == "" {
		invalid.Detail = "the body " + detail + "; nothing was done"
	} else {
		invalid.Detail = "the body, at " + pointer + ", " + detail + "; nothing was done"
	}
	return invalid
}
