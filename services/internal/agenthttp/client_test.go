package agenthttp

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func server(t testing.TB) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return s
}

func get(t testing.TB, cfg ClientConfig, url string) error {
	t.Helper()
	client, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestAddressesAreLookedAtAfterResolution(t *testing.T) {
	s := server(t)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	byName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	cfg := DefaultClientConfig()
	if err := get(t, cfg, s.URL); err != nil {
		t.Errorf("port %d: %v", port, err)
	}
	cfg.AllowedNetworks = []string{"127.0.0.0/8"}
	if err := get(t, cfg, s.URL); err != nil {
		t.Errorf("in an allowed network: %v", err)
	}
	cfg.AllowedNetworks = []string{"192.0.2.0/24"}
	for _, url := range []string{s.URL, byName} {
		if err := get(t, cfg, url); !Refused(err) {
			t.Errorf("%s outside the allowed networks: %v", url, err)
		}
	}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1]:80", "[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80", "0.0.0.0:80", "bad"} {
		var refused *AddressError
		if err := checkDial(address, nil); !errors.As(err, &refused) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPrivateAuthoritiesComeFromAFile(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	if err := get(t, DefaultClientConfig(), s.URL); err == nil {
		t.Error("a certificate that nobody vouches for was taken")
	}
	cfg := DefaultClientConfig()
	cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cfg.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := get(t, cfg, s.URL); err != nil {
		t.Error(err)
	}
}

func TestAnonymousPresentsNothing(t *testing.T) {
	cfg := DefaultClientConfig()
	cfg.TokenFile, cfg.ClientCertFile, cfg.ClientKeyFile = "token", "cert", "key"
	if got := cfg.Anonymous(); got.TokenFile+got.ClientCertFile+got.ClientKeyFile != "" || got.ConnectTimeout != cfg.ConnectTimeout {
		t.Errorf("%+v", got)
	}
}

func TestRepliesOfManyConnectionsAreKept(t *testing.T) {
	client, err := NewClient(DefaultClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	transport := client.Transport.(*http.Transport)
	if transport.MaxConnsPerHost != 0 || transport.MaxIdleConnsPerHost < 256 || transport.Proxy != nil {
		t.Error("256 commands to one agent would queue, or go through a proxy")
	}
	if transport.TLSClientConfig.InsecureSkipVerify || transport.TLSClientConfig.MinVersion < tls.VersionTLS12 {
		t.Error("TLS is not verified")
	}
}

func TestI17_EveryWrongSettingIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for key, change := range map[string]func(*ClientConfig){
		"http.connectTimeout":  func(c *ClientConfig) { c.ConnectTimeout = 0 },
		"http.tokenFile":       func(c *ClientConfig) { c.TokenFile = missing },
		"http.allowedNetworks": func(c *ClientConfig) { c.AllowedNetworks = []string{"10.0.0.1"} },
		"http.caFile":          func(c *ClientConfig) { c.CAFile = missing },
		"clientCertFile":       func(c *ClientConfig) { c.ClientCertFile = missing },
	} {
		cfg := DefaultClientConfig()
		change(&cfg)
		if err := cfg.Validate("http"); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	cfg := DefaultClientConfig()
	if err := cfg.Validate("http"); err != nil || cfg.ConnectTimeout != 3*time.Second {
		t.Error(err)
	}
}
