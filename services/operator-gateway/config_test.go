package operatorgateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/config"
)

const localBus = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=local;SharedAccessKey=ZmFrZQ==;UseDevelopmentEmulator=true;"

func TestI17_BadSettingsNameTheirKey(t *testing.T) {
	notTokens := filepath.Join(t.TempDir(), "tokens.yaml")
	check(t, os.WriteFile(notTokens, []byte("- token: fake-token\n"), 0o600))
	for key, row := range map[string]struct {
		edit func(*Config)
		says string
	}{
		"rest.listen":                 {func(c *Config) { c.REST.Listen = "0.0.0.0:8080" }, "set tokenFile"},
		"rest.listen ":                {func(c *Config) { c.REST.Listen = "8080" }, "host:port"},
		"grpc.listen":                 {func(c *Config) { c.GRPC.Listen = ":7440" }, "set tokenFile"},
		"grpc.listen ":                {func(c *Config) { c.GRPC.Listen = c.REST.Listen }, "rest.listen"},
		"admin.listen":                {func(c *Config) { c.Admin.Listen = "0.0.0.0:7441" }, "loopback"},
		"rest.tls":                    {func(c *Config) { c.REST.TLS.CertFile = "cert.pem" }, "keyFile"},
		"grpc.tls":                    {func(c *Config) { c.GRPC.TLS.CertFile, c.GRPC.TLS.KeyFile = "no.pem", "no.key" }, "no.pem"},
		"tokenFile":                   {func(c *Config) { c.TokenFile = filepath.Join(t.TempDir(), "none") }, "none"},
		"tokenFile ":                  {func(c *Config) { c.TokenFile = notTokens }, "token"},
		"registry.target":             {func(c *Config) { c.Registry.Target = "" }, "host:port"},
		"registry.tokenFile":          {func(c *Config) { c.Registry.TokenFile = "/nonexistent" }, "/nonexistent"},
		"availability.target":         {func(c *Config) { c.Availability.Target = "availability" }, "host:port"},
		"availability.target ":        {func(c *Config) { c.Availability.Plaintext = true }, "host:port"},
		"availability.tokenFile":      {func(c *Config) { c.Availability.Target, c.Availability.TokenFile = "localhost:1", "/nonexistent" }, "/nonexistent"},
		"bus":                         {func(c *Config) { c.Bus.ConnectionString.Set("") }, "exactly one"},
		"httpOnly":                    {func(c *Config) { c.HTTPOnly = true }, "bus"},
		"http.connectTimeout":         {func(c *Config) { c.HTTP.ConnectTimeout = 0 }, "10ms"},
		"http.tokenFile":              {func(c *Config) { c.HTTP.TokenFile = "/nonexistent" }, "/nonexistent"},
		"budgets.read":                {func(c *Config) { c.Budgets.Read = 0 }, "500ms"},
		"budgets.write":               {func(c *Config) { c.Budgets.Write = time.Hour }, "4m"},
		"routing.maxHeartbeatAge":     {func(c *Config) { c.Routing.MaxHeartbeatAge = 0 }, "1s"},
		"routing.maxVerificationAge":  {func(c *Config) { c.Routing.MaxVerificationAge = 1000 * time.Hour }, "720h"},
		"verification.repeatInterval": {func(c *Config) { c.Verification.RepeatInterval = 24 * time.Hour }, "routing.maxVerificationAge"},
	} {
		cfg := DefaultConfig()
		cfg.Bus.ConnectionString.Set(localBus)
		if err := cfg.Validate(); err != nil {
			t.Fatalf("the settings before the change: %v", err)
		}
		row.edit(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(key)) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if runErr := Run(t.Context(), cfg); runErr == nil || runErr.Error() != err.Error() {
			t.Errorf("%s: Run says %v", key, runErr)
		}
		if strings.Contains(err.Error(), "fake-token") {
			t.Errorf("%s: a token is shown: %v", key, err)
		}
	}
}

func TestSettingsComeFromFileEnvironmentAndFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	check(t, os.WriteFile(file, []byte("rest: {listen: '127.0.0.1:1'}\nhttpOnly: true\nbudgets: {read: 2s}\n"), 0o600))
	cfg := DefaultConfig()
	check(t, config.Load(&cfg, config.Options{EnvPrefix: "GATEWAY", File: file, Environ: []string{"GATEWAY_BUDGETS_WRITE=30s"}, Sets: []string{"routing.maxHeartbeatAge=10s"}}))
	if cfg.REST.Listen != "127.0.0.1:1" || !cfg.HTTPOnly || cfg.Budgets != (BudgetConfig{2 * time.Second, 30 * time.Second}) || cfg.Routing.MaxHeartbeatAge != 10*time.Second {
		t.Errorf("%+v", cfg)
	}
	if err := config.Load(&cfg, config.Options{EnvPrefix: "GATEWAY", Sets: []string{"rest.tokenFile=x"}}); err == nil || !strings.Contains(err.Error(), "rest.tokenFile") {
		t.Errorf("an unknown key: %v", err)
	}
}
