package rest

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

// bodies is how bodies are read. One without a type, and with the one that curl -d sends, is read as JSON all the same; pages of other
// origins, which could send it too, are refused before.
var bodies = restserver.Bodies{MaxBytes: MaxBodyBytes, Lenient: true}

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
	body, refused := bodies.Read(w, r)
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
