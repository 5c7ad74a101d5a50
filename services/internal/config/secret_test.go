package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSecretsCannotBePrinted(t *testing.T) {
	const text = "hush"
	secret := Secret(text)
	holder := struct {
		Key  Secret
		Ptr  *Secret
		List []Secret
		Map  map[string]Secret
	}{secret, &secret, []Secret{secret}, map[string]Secret{"k": secret}}
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.2s", "%T-%[1]v"} {
		fmt.Fprintf(&printed, verb+"\n", secret)
		fmt.Fprintf(&printed, verb+"\n", holder)
	}
	fmt.Fprintln(&printed, secret, &secret, holder, fmt.Errorf("wrapping %v", secret), fmt.Sprint(secret))
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		out, err := marshal(holder)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(out)
	}
	out, err := xml.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(out)
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(handler).Info("x", "secret", secret, "pointer", &secret, "holder", holder, slog.Group("group", "secret", secret))
	}
	printed.Write(log.Bytes())
	hexed := fmt.Sprintf("%x", text)
	if all := printed.String(); strings.Contains(all, text) || strings.Contains(all, hexed) || strings.Contains(all, strings.ToUpper(hexed)) {
		t.Errorf("shown in\n%s", all)
	}
	if secret.Reveal() != text {
		t.Error("the secret itself is lost")
	}
	secret.Set("other")
	if secret.Reveal() != "other" {
		t.Error("Set sets nothing")
	}
}

func TestReadSecretFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"good": "\n fake key \r\n", "empty": " \n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if secret, err := ReadSecretFile("a.b", filepath.Join(dir, "good")); err != nil || secret.Reveal() != "fake key" {
		t.Errorf("read %q, %v", secret.Reveal(), err)
	}
	for _, name := range []string{"empty", "missing", "."} {
		if _, err := ReadSecretFile("a.b", filepath.Join(dir, name)); err == nil || !strings.HasPrefix(err.Error(), "a.b: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProblemsTellEverything(t *testing.T) {
	var problems Problems
	problems.AddError(nil)
	if problems.Err() != nil {
		t.Error("nothing is wrong")
	}
	problems.Add("a.b", "must be %d", 5)
	problems.AddError(os.ErrNotExist)
	if err := problems.Err(); err == nil || err.Error() != "a.b: must be 5\n"+os.ErrNotExist.Error() {
		t.Error(err)
	}
}
