// Command openapi writes the OpenAPI document of the REST interface, made from a descriptor set with comments.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/commandcenter/fleet/services/operator-gateway/internal/openapi"
)

func main() {
	descriptors := flag.String("descriptors", "", "file with the descriptor set")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := write(*descriptors, *out); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func write(descriptors, out string) error {
	set, err := os.ReadFile(descriptors)
	if err != nil {
		return err
	}
	document, err := openapi.Make(set)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, document, 0o644)
}
