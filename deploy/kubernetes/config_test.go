package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigIsTakenByTheServices lets each service check the settings the base gives it, with secrets laid out as the base
// mounts them. A key that a service does not know, or a listener it refuses, fails here and not in a cluster.
func TestConfigIsTakenByTheServices(t *testing.T) {
	for _, service := range []string{"registry", "heartbeat", "availability", "operator-gateway"} {
		t.Run(service, func(t *testing.T) {
			dir := t.TempDir()
			binary := filepath.Join(dir, service)
			build := exec.Command("go", "build", "-o", binary, "./cmd/"+service)
			build.Dir = filepath.Join("..", "..", "services", service)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			secrets := map[string]string{
				"tokens.yaml":           "- sha256: " + strings.Repeat("ab", 32) + "\n  principal: example\n  role: admin\n",
				"registry-token":        "not-a-real-token",
				"availability-token":    "not-a-real-token",
				"agent-token":           "not-a-real-token",
				"database-url":          "sqlserver://user:not-a-real-password@database.example.test?database=CommandCenter&encrypt=true",
				"bus-connection-string": "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=example;SharedAccessKey=bm90LWEtcmVhbC1rZXk=",
			}
			for name, text := range secrets {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := os.ReadFile(filepath.Join("base", "config", service+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(dir, "config.yaml")
			mounted := strings.ReplaceAll(string(raw), "/run/secrets/commandcenter", dir)
			if err := os.WriteFile(config, []byte(mounted), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(binary, "-config", config, "-check-config").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := exec.Command(binary, "-config", config, "-set", "grpc.listne=x", "-check-config").CombinedOutput(); err == nil || !strings.Contains(string(out), "grpc.listne") {
				t.Fatalf("an unknown key must be refused by name: %v %s", err, out)
			}
			withoutTokens := strings.ReplaceAll(mounted, filepath.Join(dir, "tokens.yaml"), `""`)
			if err := os.WriteFile(config, []byte(withoutTokens), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(binary, "-config", config, "-check-config").CombinedOutput(); err == nil || !strings.Contains(string(out), "okenFile") {
				t.Fatalf("a listener beyond loopback without tokens must be refused: %v %s", err, out)
			}
		})
	}
}
