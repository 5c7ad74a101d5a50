package kubernetes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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
				"enrolment-key":         "not-a-real-key",
			}
			secrets["tls.crt"], secrets["tls.key"] = certificate(t)
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
			mounted := strings.NewReplacer("/run/secrets/commandcenter", dir, "/run/secrets/certificate", dir).Replace(string(raw))
			if err := os.WriteFile(config, []byte(mounted), 0o600); err != nil {
				t.Fatal(err)
			}
			environ := replicaEnviron(t, service)
			if out, err := checked(binary, config, environ); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := checked(binary, config, environ, "-set", "grpc.listne=x"); err == nil || !strings.Contains(out, "grpc.listne") {
				t.Fatalf("an unknown key must be refused by name: %v %s", err, out)
			}
			withoutTokens := strings.ReplaceAll(mounted, filepath.Join(dir, "tokens.yaml"), `""`)
			if err := os.WriteFile(config, []byte(withoutTokens), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := checked(binary, config, environ); err == nil || !strings.Contains(out, "okenFile") {
				t.Fatalf("a listener beyond loopback without tokens must be refused: %v %s", err, out)
			}
		})
	}
}

// TestTheImageSaysItsVersion makes sure that the variable exists that the image's build sets: the linker sets one that does not without
// a word, and control servers of different versions would look alike.
func TestTheImageSaysItsVersion(t *testing.T) {
	image, err := os.ReadFile(filepath.Join("..", "images", "heartbeat.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`-X github\.com/commandcenter/fleet/services/heartbeat\.(\w+)=\$\{VERSION\}`).FindSubmatch(image)
	if set == nil {
		t.Fatal("the build sets no version")
	}
	sources, err := filepath.Glob(filepath.Join("..", "..", "services", "heartbeat", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`(?m)^var ` + string(set[1]) + ` string$`)
	for _, path := range sources {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if variable.Match(source) {
			return
		}
	}
	t.Errorf("the heartbeat service has no variable %s", set[1])
}

// checked lets a service check its settings.
func checked(binary, config string, environ []string, more ...string) (string, error) {
	command := exec.Command(binary, append([]string{"-config", config, "-check-config"}, more...)...)
	command.Env = environ
	out, err := command.CombinedOutput()
	return string(out), err
}

// replicaEnviron is the environment of a service's second replica.
func replicaEnviron(t *testing.T, service string) []string {
	t.Helper()
	objects := render(t, "base")
	environ := []string{}
	if set := controlServers(t, objects); set.Name == service {
		for name, value := range environment(t, set, 1) {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// certificate makes one that signs itself, and its key.
func certificate(t *testing.T) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*.heartbeat.fleet.svc"}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}
