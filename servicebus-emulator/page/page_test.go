package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const dead = "t/Subscriptions/s/$DeadLetterQueue"

// fakeSource has a topic with a subscription, and dead letters there. Number 3 is locked.
type fakeSource struct {
	dead  []int64
	moved []int64
}

func (f *fakeSource) Entities() []Entity {
	return []Entity{
		{Kind: "topic", Name: "t", Path: "t", Size: 2048},
		{Kind: "subscription", Name: "s", Path: "t/Subscriptions/s", DeadPath: dead, Active: 7, DeadLetter: len(f.dead)},
	}
}

func (f *fakeSource) Messages(path string, from int64, limit int) ([]Message, bool) {
	if path != dead {
		return nil, path == "t/Subscriptions/s"
	}
	var found []Message
	for _, n := range f.dead {
		if n >= from && len(found) < limit {
			found = append(found, Message{
				Sequence: n, State: "active", EnqueuedAt: time.Unix(1_900_000_000, 0), Reason: "MaxDeliveryCountExceeded",
				Description: "<script>alert(1)</script>", Body: fmt.Sprintf("body %d", n), Properties: []Property{{"colour", "red"}},
			})
		}
	}
	return found, true
}

func (f *fakeSource) Move(path string, n int64) error {
	if err := f.Delete(path, n); err != nil {
		return err
	}
	f.moved = append(f.moved, n)
	return nil
}

func (f *fakeSource) Delete(path string, n int64) error {
	i := slices.Index(f.dead, n)
	switch {
	case n == 3:
		return errors.New("it is locked")
	case path != dead || i < 0:
		return errors.New("there is none")
	}
	f.dead = slices.Delete(f.dead, i, i+1)
	return nil
}

// browser sends requests as a browser on this machine does.
type browser struct {
	*testing.T
	handler http.Handler
}

func (b browser) do(method, target string, form url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequest(method, "http://localhost:5300"+target, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:40000"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func (b browser) shows(w *httptest.ResponseRecorder, status int, texts ...string) {
	b.Helper()
	if w.Code != status {
		b.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			b.Errorf("%q is not in\n%s", text, w.Body)
		}
	}
}

func open(t *testing.T, f *fakeSource) browser {
	return browser{t, NewHandler(f, Options{Name: "n"})}
}

func TestOverviewAndMessages(t *testing.T) {
	b := open(t, &fakeSource{dead: []int64{1, 2}})
	b.shows(b.do(http.MethodGet, Root, nil, nil), http.StatusOK, "2 dead letters of t/Subscriptions/s", ">7<", "2.0 KB")
	w := b.do(http.MethodGet, Root+"messages?entity="+url.QueryEscape(dead), nil, nil)
	b.shows(w, http.StatusOK, "MaxDeliveryCountExceeded", "body 2", "colour", "Move message 2 back", "&lt;script&gt;alert(1)")
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(w.Body.String(), "<script") {
		t.Errorf("%q lets scripts run", csp)
	}
	b.shows(b.do(http.MethodGet, Root+"messages?entity=t/Subscriptions/s", nil, nil), http.StatusOK, "There are no messages")
	b.shows(b.do(http.MethodGet, Root+"messages?entity=gone", nil, nil), http.StatusNotFound, "There is no queue", "gone")
	b.shows(b.do(http.MethodGet, Root+"style.css", nil, nil), http.StatusOK, "color-scheme")
}

func TestMessagesComeInPages(t *testing.T) {
	f := &fakeSource{}
	for n := range int64(pageSize + 5) {
		f.dead = append(f.dead, n+10)
	}
	b := open(t, f)
	first := b.do(http.MethodGet, Root+"messages?entity="+url.QueryEscape(dead), nil, nil)
	b.shows(first, http.StatusOK, "body 59", "from=60")
	if strings.Contains(first.Body.String(), "body 60") {
		t.Error("the first page is too long")
	}
	b.shows(b.do(http.MethodGet, Root+"messages?from=60&entity="+url.QueryEscape(dead), nil, nil), http.StatusOK, "body 60", "body 64")
}

func TestOrdersMoveAndDelete(t *testing.T) {
	f := &fakeSource{dead: []int64{1, 2, 3, 4}}
	b := open(t, f)
	order := func(what, sequence string) *httptest.ResponseRecorder {
		return b.do(http.MethodPost, Root+what, url.Values{"entity": {dead}, "sequence": {sequence}}, nil)
	}
	w := order("move", "2")
	b.shows(w, http.StatusSeeOther)
	b.shows(b.do(http.MethodGet, w.Header().Get("Location"), nil, nil), http.StatusOK, "1 moved", "body 1")
	b.shows(order("move", "2"), http.StatusConflict, "Nothing was moved: there is none.")
	b.shows(order("delete", "3"), http.StatusConflict, "Nothing was deleted: it is locked.")
	b.shows(order("delete", "x"), http.StatusConflict, "names no message")
	w = order("delete", "all")
	b.shows(b.do(http.MethodGet, w.Header().Get("Location"), nil, nil), http.StatusOK, "2 deleted, 1 left as they are", "body 3")
	if !slices.Equal(f.dead, []int64{3}) || !slices.Equal(f.moved, []int64{2}) {
		t.Errorf("left %v, moved %v", f.dead, f.moved)
	}
}

// No page of another site, and no other machine, reads or changes anything.
func TestStrangersAreRefused(t *testing.T) {
	f := &fakeSource{dead: []int64{1}}
	b := open(t, f)
	form := url.Values{"entity": {dead}, "sequence": {"1"}}
	for name, change := range map[string]func(*http.Request){
		"another site's form":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another port's form":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an older browser's":         func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://example.com") },
		"a name that was rebound":    func(r *http.Request) { r.Host = "rebound.example.com:5300" },
		"a name that begins as ours": func(r *http.Request) { r.Host = "localhost.example.com" },
		"another machine's":          func(r *http.Request) { r.RemoteAddr = "192.0.2.1:40000" },
	} {
		if w := b.do(http.MethodPost, Root+"delete", form, change); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	b.shows(b.do(http.MethodGet, Root, nil, func(r *http.Request) { r.Host = "rebound.example.com" }), http.StatusForbidden, "localhost")
	b.shows(b.do(http.MethodGet, Root+"delete?sequence=1&entity="+url.QueryEscape(dead), nil, nil), http.StatusMethodNotAllowed)
	if len(f.dead) != 1 {
		t.Error("something was deleted")
	}
	for _, host := range []string{"localhost", "127.0.0.1:1", "[::1]:1"} {
		b.shows(b.do(http.MethodGet, Root, nil, func(r *http.Request) { r.Host, r.RemoteAddr = host, "[::1]:1" }), http.StatusOK)
	}
}

func TestKeysAreAskedFor(t *testing.T) {
	b := browser{t, NewHandler(&fakeSource{}, Options{Authorize: func(name, key string) bool { return name == "manage" && key == "k" }})}
	w := b.do(http.MethodGet, Root, nil, nil)
	b.shows(w, http.StatusUnauthorized)
	if !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
		t.Error("no browser would ask for a key")
	}
	b.shows(b.do(http.MethodGet, Root, nil, func(r *http.Request) { r.SetBasicAuth("manage", "x") }), http.StatusUnauthorized)
	b.shows(b.do(http.MethodGet, Root, nil, func(r *http.Request) { r.SetBasicAuth("manage", "k") }), http.StatusOK)
}
