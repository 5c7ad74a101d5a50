package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckConfigStartsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte("httpOnly: true\nregistry: {target: 'localhost:1'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-config", file, "-check-config"}); err != nil {
		t.Errorf("good settings: %v", err)
	}
	for args, key := range map[string]string{
		"-set|rest.listen=0.0.0.0:80": "rest.listen", "-set|budgets.reed=1s": "budgets.reed", "-set|budgets.read=soon": "budgets.read", "-config|/nonexistent": "/nonexistent",
	} {
		err := run(append([]string{"-config", file, "-check-config"}, strings.Split(args, "|")...))
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
