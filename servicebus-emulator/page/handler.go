package page

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// Root is the path below which the pages are. No entity has such a name.
	Root = "/$page/"

	pageSize = 50       // messages
	maxForm  = 64 << 10 // bytes
	// maxAtOnce bounds what one order for all messages does.
	maxAtOnce = 100_000
)

//go:embed assets
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"when": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"size": size,
}).ParseFS(assets, "assets/*.html"))

// Options of a Handler.
type Options struct {
	// Name is that of the namespace.
	Name string
	// Authorize checks a key by its name, as a browser asks for it. Default: no key is needed.
	Authorize func(name, key string) bool
}

type handler struct {
	source  Source
	options Options
}

// NewHandler makes the handler for Root and everything below.
func NewHandler(s Source, o Options) http.Handler {
	h := &handler{s, o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root+"{$}", h.overview)
	mux.HandleFunc("GET "+Root+"messages", h.messages)
	mux.HandleFunc("POST "+Root+"move", h.order("moved", s.Move))
	mux.HandleFunc("POST "+Root+"delete", h.order("deleted", s.Delete))
	mux.HandleFunc("GET "+Root+"style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "assets/style.css")
	})
	return h.guard(http.NewCrossOriginProtection().Handler(mux))
}

// guard lets in browsers of this machine that were led here by one of its own names. A name of another site that leads to this address would
// otherwise make that site's scripts part of this one.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !isLoopback(r.RemoteAddr) || !isLoopback(r.Host) {
			http.Error(w, "These pages are only for browsers on the machine of the emulator, at localhost or a loopback address. "+
				"Nothing was done.", http.StatusForbidden)
			return
		}
		if h.options.Authorize != nil {
			if name, key, ok := r.BasicAuth(); !ok || !h.options.Authorize(name, key) {
				header.Set("WWW-Authenticate", `Basic realm="Name of a shared access key that may manage, and the key", charset="UTF-8"`)
				http.Error(w, "The pages need the name of a shared access key that may manage, and the key.", http.StatusUnauthorized)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether an address, with or without a port, is this machine's own.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (h *handler) overview(w http.ResponseWriter, _ *http.Request) {
	h.show(w, http.StatusOK, "overview.html", map[string]any{"Name": h.options.Name, "Entities": h.source.Entities(), "Root": Root})
}

func (h *handler) messages(w http.ResponseWriter, r *http.Request) {
	h.showMessages(w, http.StatusOK, r.URL.Query(), "")
}

// showMessages shows those of the entity that the values name, with what there is to say.
func (h *handler) showMessages(w http.ResponseWriter, status int, values url.Values, failure string) {
	path := values.Get("entity")
	from, _ := strconv.ParseInt(values.Get("from"), 10, 64)
	found, ok := h.source.Messages(path, from, pageSize+1)
	if !ok {
		h.show(w, http.StatusNotFound, "missing.html", map[string]any{"Name": h.options.Name, "Path": path, "Root": Root})
		return
	}
	data := map[string]any{
		"Name": h.options.Name, "Path": path, "Root": Root, "From": from, "Failure": failure, "Done": values.Get("done"),
		"Dead": isDead(h.source.Entities(), path), "Messages": found[:min(len(found), pageSize)],
	}
	if len(found) > pageSize {
		data["Next"] = found[pageSize].Sequence
	}
	h.show(w, status, "messages.html", data)
}

func isDead(all []Entity, path string) bool {
	for _, e := range all {
		if e.DeadPath == path {
			return true
		}
	}
	return false
}

// order does what a form says to one message or to all, and leads back to the list. word is what then was done.
func (h *handler) order(word string, do func(path string, sequence int64) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "The form cannot be read: "+err.Error()+". Nothing was done.", http.StatusBadRequest)
			return
		}
		path := r.PostForm.Get("entity")
		done, left, err := h.carryOut(path, r.PostForm.Get("sequence"), do)
		if err != nil {
			h.showMessages(w, http.StatusConflict, r.PostForm, fmt.Sprintf("Nothing was %s: %v.", word, err))
			return
		}
		said := fmt.Sprintf("%d %s", done, word)
		if left > 0 {
			said += fmt.Sprintf(", %d left as they are: locked, or gone meanwhile", left)
		}
		back := url.Values{"entity": {path}, "done": {said}}
		if from := r.PostForm.Get("from"); from != "" && from != "0" {
			back.Set("from", from)
		}
		http.Redirect(w, r, Root+"messages?"+back.Encode(), http.StatusSeeOther)
	}
}

var errBadSequence = errors.New("the form names no message")

// carryOut does it to the message with a number, or to "all" there are now. Of all, some may be left.
func (h *handler) carryOut(path, which string, do func(string, int64) error) (done, left int, err error) {
	if which != "all" {
		sequence, err := strconv.ParseInt(which, 10, 64)
		if err != nil {
			return 0, 0, errBadSequence
		}
		if err := do(path, sequence); err != nil {
			return 0, 0, err
		}
		return 1, 0, nil
	}
	all, ok := h.source.Messages(path, 0, maxAtOnce)
	if !ok {
		return 0, 0, fmt.Errorf("there is no entity %q", path)
	}
	for _, m := range all {
		if do(path, m.Sequence) != nil {
			left++
		} else {
			done++
		}
	}
	return done, left, nil
}

func (h *handler) show(w http.ResponseWriter, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "The page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

func size(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1f KB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}
