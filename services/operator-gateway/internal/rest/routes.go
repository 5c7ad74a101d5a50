package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	contracts "github.com/commandcenter/fleet/proto"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/reference"
)

// routes knows which methods each path has, from the OpenAPI document.
type routes []route

type route struct {
	template string
	path     *regexp.Regexp
	methods  []string
}

// pages are what is served beside the interface: where to look, and its description.
var pages = map[string]struct{ kind, content string }{
	"/openapi.json": {"application/json", oneLine(contracts.OpenAPI)},
	"/docs":         {"text/html; charset=utf-8", referencePage(contracts.OpenAPI)},
	"/docs.css":     {"text/css; charset=utf-8", reference.Style},
	"/": {"text/plain; charset=utf-8", `CommandCenter agent fleet

/docs                                      this interface, for people
/openapi.json                              and for tools
/api/agents                                the agents that take commands, and how each is reached
/api/agents/{agent}/route                  which way its next command would take, and why
/api/availability/servers                  which servers are available, and why
/api/availability/overview                 how that is found out just now, and what is held
/api/config/agents                         every agent, to accept, reject and set up
/api/config/servers                        the server catalog
/api/config/servers/{server}/maintenance   take a server out of traffic, and put it back
/api/config/control-servers                the control servers, and what is unusual about their cloud
/api/config/affinity-groups                which agents prefer which control servers
/api/config/partition-events               how and why agents were spread over control servers

JSON comes indented with ?pretty, and to curl and wget; on one line with Accept: application/json, and to programs.
`},
}

// referencePage is a document as people read it.
func referencePage(document []byte) string {
	page, err := reference.Page(document)
	if err != nil {
		return "the reference cannot be shown: " + err.Error()
	}
	return page
}

// oneLine is a document as programs get it.
func oneLine(document []byte) string {
	var tight bytes.Buffer
	if json.Compact(&tight, document) != nil {
		return string(document) // readRoutes says what is wrong with it
	}
	return tight.String() + "\n"
}

var parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

func readRoutes(openAPI []byte) (routes, error) {
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(openAPI, &document); err != nil {
		return nil, err
	}
	var found routes
	for template, operations := range document.Paths {
		one, err := readRoute(template, operations)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	for page := range pages {
		found = append(found, route{template: page, path: regexp.MustCompile("^" + regexp.QuoteMeta(page) + "$"), methods: []string{http.MethodGet}})
	}
	// Of two that match, the longer says more: {agent}:accept, not {agent}.
	slices.SortFunc(found, func(a, b route) int { return len(b.template) - len(a.template) })
	return found, nil
}

func readRoute(template string, operations map[string]json.RawMessage) (route, error) {
	pattern, err := regexp.Compile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$")
	if err != nil {
		return route{}, err
	}
	found := route{template: template, path: pattern}
	for method := range operations {
		if method = strings.ToUpper(method); !slices.Contains(knownMethods, method) { // "parameters" may stand beside them
			continue
		}
		found.methods = append(found.methods, method)
	}
	return found, nil
}

// of is the template that an escaped path matches; empty for a path that does not exist.
func (r routes) of(path string) string {
	for _, one := range r {
		if one.matches(path) {
			return one.template
		}
	}
	return ""
}

// matches compares the depth first, which tells most apart for a fraction of the time.
func (r route) matches(path string) bool {
	return strings.Count(path, "/") == strings.Count(r.template, "/") && r.path.MatchString(path)
}

// allowed lists the methods of an escaped path; none for a path that does not exist. Those of * are of all routes together.
func (r routes) allowed(path string) []string {
	var methods []string
	for _, one := range r {
		if path == "*" || one.matches(path) {
			methods = append(methods, one.methods...)
		}
	}
	if len(methods) == 0 {
		return nil
	}
	methods = append(methods, http.MethodOptions)
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// serveAside answers what is no call: OPTIONS, and the pages. False: it is a call.
func (h *handler) serveAside(w http.ResponseWriter, r *http.Request) bool {
	page, isPage := pages[r.URL.Path]
	if !isPage && r.Method != http.MethodOptions {
		return false
	}
	allowed := h.routes.allowed(r.URL.EscapedPath())
	switch {
	case r.Method == http.MethodOptions && len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusNoContent)
	case !isPage:
		return false
	case !slices.Contains(allowed, r.Method):
		h.refuse(w, requestOf(r.Context()), methodNotAllowed(w, r.Method, r.URL.Path, allowed))
	default:
		w.Header().Set("Content-Type", page.kind)
		w.Header().Set("Content-Security-Policy", reference.Policy)
		_, _ = w.Write([]byte(page.content))
	}
	return true
}

func methodNotAllowed(w http.ResponseWriter, method, path string, allowed []string) *fault.Error {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return fault.New(fault.MethodNotAllowed, "%s is not a method of %s, which has %s; nothing was done", method, path, list)
}
