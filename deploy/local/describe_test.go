package local

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	contracts "github.com/commandcenter/fleet/proto"
)

// What the start and the page suggest exists: every path in them is a route of the interface.
func TestWhatIsSuggestedExists(t *testing.T) {
	var said strings.Builder
	system := &System{REST: "http://gateway.test", claim: &Claim{dir: "var"}, Found: Found{Agents: map[string]int{"pending": 1}}}
	if err := system.Describe(&said, "local.log"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../TRY.md")
	if err != nil {
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
	check := func(text string, atLeast int) {
		t.Helper()
		text = strings.ReplaceAll(text, "$maintenance", "$REST/api/config/servers/BM-AMS-02/maintenance")
		found := regexp.MustCompile(`(?:gateway\.test|\$REST)(/api/[\w/:$-]+)`).FindAllStringSubmatch(text, -1)
		for _, path := range found {
			if !routes.MatchString(path[1]) {
				t.Errorf("there is no route %s", path[1])
			}
		}
		if len(found) < atLeast {
			t.Errorf("it names %d routes only:\n%s", len(found), text)
		}
	}
	check(said.String(), 5)
	check(string(page), 20)
}

// The start is ten lines: more is not read.
func TestTheStartIsShort(t *testing.T) {
	var said strings.Builder
	system := &System{REST: "http://127.0.0.1:8080", claim: &Claim{dir: "var"}, Found: Found{
		Agents: map[string]int{"pending": 1, "accepted": 6, "rejected": 2}, Servers: 1,
	}}
	if err := system.Describe(&said, "local.log"); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(said.String()) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > 10 {
		t.Errorf("%d lines:\n%s", lines, said.String())
	}
	if want := "Found 9 agents (6 accepted, 1 pending, 2 rejected) and 1 server of an earlier run."; !strings.Contains(said.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, said.String())
	}
}

// What starts from nothing does so where the system is, and not where it usually would be.
func TestTheStartSaysHowToBeginWhereItIs(t *testing.T) {
	for dir, want := range map[string]string{"var": "; make fresh starts", "out/two": `; make fresh ARGS="-data out/two" starts`} {
		var said strings.Builder
		if err := (&System{REST: "http://127.0.0.1:8080", claim: &Claim{dir: dir}}).Describe(&said, "local.log"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "http://127.0.0.1:8080/docs.") {
			t.Errorf("%s: it says neither %q nor where the interface is described:\n%s", dir, want, said.String())
		}
	}
}
