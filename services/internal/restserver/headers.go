package restserver

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// headroom is how far beyond a server's MaxHeaderBytes net/http reads headers for it, so that a handler, not net/http, refuses them. Over
// HTTP/2 net/http answers what is larger still by a page, or closes the connection.
const headroom = 64 << 10

// headers refuses requests whose headers are larger than the server takes. It is asked over HTTP/2 too, where what net/http itself answers
// cannot be seen among the frames.
type headers struct {
	next   http.Handler
	limit  int
	logger *slog.Logger
}

// limitHeaders makes headers the handler of a server.
func limitHeaders(server *http.Server, logger *slog.Logger) {
	limit := cmp.Or(server.MaxHeaderBytes, http.DefaultMaxHeaderBytes)
	server.MaxHeaderBytes = limit + headroom
	server.Handler = &headers{server.Handler, limit, logger}
}

// ServeHTTP implements http.Handler.
func (h *headers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if headBytesOf(r) <= h.limit {
		h.next.ServeHTTP(w, r)
		return
	}
	id := grpcserver.NewRequestID("")
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	WriteProblem(w, id, errHeadersTooLarge)
	logRefusal(h.logger, errHeadersTooLarge, id, r.RemoteAddr)
}

var errHeadersTooLarge = fault.New(fault.HeadersTooLarge, "the request line and the headers are together too large; nothing was done")

// headBytesOf is how large a request's line and headers are as HTTP/1.1 writes them.
func headBytesOf(r *http.Request) int {
	const between = len(": \r\n")
	size := len(r.Method) + len(r.RequestURI) + len(r.Proto) + between + len("Host") + len(r.Host) + between
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + between
		}
	}
	return size
}
