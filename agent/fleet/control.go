package fleet

import (
	"fmt"
	"net/http"
)

// Control serves the faults over HTTP, for whoever drives a demonstration from outside the process. It asks for no
// credentials: serve it on loopback only.
//
//	POST /agents/{agent}/silence | wake | mute | answer | restart
//	POST /agents/{agent}/hang?unit=W3SVC | release?unit=W3SVC
//	POST /agents/{agent}/fail?subject=Spooler&detail=access+denied   (without detail: ends it)
//	GET  /agents/{agent}/control-server
//	GET  /stats
//
// It answers 204, or 404 with the reason as text.
func (f *Fleet) Control() http.Handler {
	mux := http.NewServeMux()
	for act, do := range map[string]func(r *http.Request, name string) error{
		"silence": func(_ *http.Request, name string) error { return f.Silence(name) },
		"wake":    func(_ *http.Request, name string) error { return f.Wake(name) },
		"mute":    func(_ *http.Request, name string) error { return f.Mute(name) },
		"restart": func(_ *http.Request, name string) error { return f.Restart(name) },
		"answer":  func(_ *http.Request, name string) error { return f.Answer(name) },
		"hang":    func(r *http.Request, name string) error { return f.Hang(name, r.FormValue("unit")) },
		"release": func(r *http.Request, name string) error { return f.Release(name, r.FormValue("unit")) },
		"fail": func(r *http.Request, name string) error {
			return f.Fail(name, r.FormValue("subject"), r.FormValue("detail"))
		},
	} {
		mux.HandleFunc("POST /agents/{agent}/"+act, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
			if err := do(r, r.PathValue("agent")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	mux.HandleFunc("GET /agents/{agent}/control-server", func(w http.ResponseWriter, r *http.Request) {
		name, err := f.ControlServer(r.PathValue("agent"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprintln(w, name)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%+v\n", f.Stats()) })
	return mux
}
