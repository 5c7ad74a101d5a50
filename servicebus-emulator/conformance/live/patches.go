package live

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Patch is one change of a file of somebody else's tests.
type Patch struct {
	Module string
	File   string // path within it
	Old    string // the text to find; empty: File is made, with the content New
	New    string
	Why    string
}

//go:embed entities.go.txt
var entitiesHelper string

// Patches are all changes that are made to the tests of others, before they run.
var Patches = []Patch{
	{
		Module: goAMQP, File: "entities_conformance_test.go", New: entitiesHelper,
		Why: "these tests expect a broker that makes a node when a link asks for it; Service Bus has an administrator make it",
	},
	{
		Module: goAMQP, File: "integration_test.go", Old: "session.NewSender(", New: "newSender(session, ",
		Why: "makes the queue first, under a name that Service Bus allows",
	},
	{
		Module: goAMQP, File: "integration_test.go", Old: "session.NewReceiver(", New: "newReceiver(session, ",
		Why: "makes the queue first, under a name that Service Bus allows",
	},
	{
		Module: azservicebus, File: "internal/test/test_helpers.go",
		Old: "if options.UseConnectionString {", New: "if options.UseConnectionString || os.Getenv(\"CONFORMANCE_SIGN_IN\") == \"key\" {",
		Why: "the tests sign in with Entra ID unless one asks for a connection string; a second run has all ask for it",
	},
}

// apply changes the files of an unpacked module. A patch that finds nothing is an error: the tests are then not those it was written for.
func apply(module, dir string) error {
	for _, p := range Patches {
		if p.Module != module {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(p.File))
		if p.Old == "" {
			if err := os.WriteFile(path, []byte(p.New), 0o600); err != nil {
				return fmt.Errorf("patch %s: %w", p.File, err)
			}
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("patch %s: %w", p.File, err)
		}
		changed := strings.ReplaceAll(string(content), p.Old, p.New)
		if changed == string(content) {
			return fmt.Errorf("patch %s: %q is not in it", p.File, p.Old)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			return fmt.Errorf("patch %s: %w", p.File, err)
		}
	}
	return nil
}

// Exception is a test that cannot hold for the emulator.
type Exception struct {
	Suite string
	Test  string
	Why   string
}

// NotApplicable are the tests that need not pass.
var NotApplicable = []Exception{}

func notApplicable(suite, test string) (string, bool) {
	for _, e := range NotApplicable {
		if e.Suite == suite && e.Test == test {
			return e.Why, true
		}
	}
	return "", false
}
