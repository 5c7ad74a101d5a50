package atom

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options of a Handler.
type Options struct {
	// Name is that of the namespace.
	Name string
	// CreatedAt is when the namespace came to be.
	CreatedAt time.Time
	// Authorize checks the Authorization header of a request for a path. Default: whoever comes may do everything.
	Authorize func(authorization, path string) error
}

// maxBody bounds what is read of a request.
const maxBody = 1 << 20

// Handler serves the administration API.
type Handler struct {
	entities Entities
	options  Options
	changing sync.Mutex // between looking whether an entity exists and making it
}

// NewHandler makes the handler for the entities.
func NewHandler(e Entities, o Options) *Handler { return &Handler{entities: e, options: o} }

// failure is an answer that is not a success.
type failure struct {
	status int
	detail string
}

func (f *failure) Error() string { return f.detail }

func fail(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

func badRequest(err error) error {
	return fail(http.StatusBadRequest, "SubCode=40000. Bad Request. %v", err)
}

func notFound(path string) error {
	return fail(http.StatusNotFound, "SubCode=40400. Not Found. The messaging entity '%s' could not be found.", path)
}

func conflict(path string) error {
	return fail(http.StatusConflict, "SubCode=40900. Conflict. The entity '%s' exists already, or as another kind of entity.", path)
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	status, document, err := h.answer(r)
	if err != nil {
		status, document = describeError(err)
	}
	w.Header().Set("Content-Type", "application/atom+xml;type=entry;charset=utf-8")
	switch document.(type) {
	case *feed:
		w.Header().Set("Content-Type", "application/atom+xml;type=feed;charset=utf-8")
	case *errorXML:
		w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	case nil:
		w.WriteHeader(status)
		return
	}
	body, err := xml.Marshal(document)
	if err != nil { // no document has a type that cannot be written
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = plainly.WriteString(w, string(body))
}

// plainly undoes the numeric references of encoding/xml, which the service does not write and the SDK for Node does not read.
var plainly = strings.NewReplacer("&#39;", "'", "&#34;", "&quot;", "&#x9;", "\t", "&#xA;", "\n")

func describeError(err error) (int, *errorXML) {
	f := &failure{}
	if !errors.As(err, &f) {
		f = &failure{http.StatusInternalServerError, err.Error()}
	}
	return f.status, &errorXML{Code: f.status, Detail: f.detail}
}

func (h *Handler) answer(r *http.Request) (status int, document any, err error) {
	if h.options.Authorize != nil {
		if err := h.options.Authorize(r.Header.Get("Authorization"), r.URL.Path); err != nil {
			return 0, nil, fail(http.StatusUnauthorized, "SubCode=40100: Unauthorized. %v", err)
		}
	}
	t, err := parseTarget(r.URL.Path)
	if err != nil {
		return 0, nil, badRequest(err)
	}
	v := view{Handler: h, host: r.Host, version: r.URL.Query().Get("api-version")}
	one := !t.all && t.kind != namespaces
	switch {
	case r.Method == http.MethodGet:
		document, err = v.get(t, r.URL.Query())
		return http.StatusOK, document, err
	case r.Method == http.MethodDelete && one:
		return http.StatusOK, nil, h.delete(t)
	case r.Method == http.MethodPut && (one || t.kind == rules):
		return v.putBody(t, r)
	}
	return 0, nil, fail(http.StatusMethodNotAllowed, "SubCode=40500. %s is not possible here.", r.Method)
}

func (v view) putBody(t target, r *http.Request) (int, any, error) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return 0, nil, fail(http.StatusRequestEntityTooLarge, "SubCode=41300. The body has more than %d bytes.", maxBody)
	}
	if err != nil {
		return 0, nil, badRequest(err)
	}
	c, err := readEntry(body)
	if err != nil {
		return 0, nil, badRequest(fmt.Errorf("the body is not an Atom entry: %w", err))
	}
	return v.put(t, c, r.Header.Get("If-Match") != "")
}

func (h *Handler) delete(t target) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	deleted := false
	switch t.kind {
	case entities:
		deleted = h.entities.DeleteQueue(t.entity) || h.entities.DeleteTopic(t.entity)
	case subscriptions:
		deleted = h.entities.DeleteSubscription(t.entity, t.subscription)
	case rules:
		deleted = h.entities.DeleteRule(t.entity, t.subscription, t.rule)
	}
	if !deleted {
		return notFound(t.path())
	}
	return nil
}
