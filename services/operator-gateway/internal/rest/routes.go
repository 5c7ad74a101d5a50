package rest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// routes knows which methods each path has, from the OpenAPI document.
type routes []route

type route struct {
	path    *regexp.Regexp
	methods []string
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
	for template, methods := range document.Paths {
		pattern, err := regexp.Compile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$")
		if err != nil {
			return nil, err
		}
		one := route{path: pattern}
		for method := range methods {
			one.methods = append(one.methods, strings.ToUpper(method))
		}
		found = append(found, one)
	}
	return found, nil
}

// allowed lists the methods of an escaped path; none for a path that does not exist.
func (r routes) allowed(path string) []string {
	var methods []string
	for _, one := range r {
		if one.path.MatchString(path) {
			methods = append(methods, one.methods...)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
