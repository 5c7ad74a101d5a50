package local

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	contracts "github.com/commandcenter/fleet/proto"
)

// What is told to be tried exists: every path that the description names is one of the interface.
func TestTheDescriptionNamesRoutesThatExist(t *testing.T) {
	var told strings.Builder
	if err := (&System{REST: "http://gateway.test"}).Describe(&told, "local.log"); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(contracts.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\\\{[^}]*\\\}`)
	var known []string
	for path := range document.Paths {
		known = append(known, parameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/:]+"))
	}
	routes := regexp.MustCompile("^(" + strings.Join(known, "|") + ")$")
	text := strings.ReplaceAll(told.String(), "$maintenance", "http://gateway.test/api/config/servers/BM-AMS-02/maintenance")
	found := regexp.MustCompile(`gateway\.test(/api/[\w/:-]+)`).FindAllStringSubmatch(text, -1)
	for _, path := range found {
		if !routes.MatchString(path[1]) {
			t.Errorf("there is no route %s", path[1])
		}
	}
	if len(found) < 15 {
		t.Errorf("it names %d routes only:\n%s", len(found), text)
	}
}
