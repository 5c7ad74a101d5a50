package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/services/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoggerKeepsLevelAndFormat(t *testing.T) {
	for level, shown := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var out bytes.Buffer
		logger, err := NewLogger(&out, "registry", LogConfig{Level: level, Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		logger.Debug("a")
		logger.Info("a")
		logger.Warn("a")
		logger.Error("a", "key", config.Secret("hush"))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != shown || strings.Contains(out.String(), "hush") {
			t.Errorf("%s shows %s", level, &out)
		}
		var last map[string]any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last["service"] != "registry" || last["level"] != "ERROR" {
			t.Errorf("%v in %v", err, last)
		}
	}
	var out bytes.Buffer
	logger, err := NewLogger(&out, "registry", LogConfig{Level: "info", Format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	if logger.Info("hello"); !strings.Contains(out.String(), "level=INFO msg=hello service=registry") {
		t.Errorf("wrote %s", &out)
	}
}

func TestI17_BadLogSettingsAreRefusedByKey(t *testing.T) {
	for want, cfg := range map[string]LogConfig{
		`log.level: "loud"`: {"loud", "json"}, `log.level: ""`: {"", "json"}, `log.level: "INFO"`: {"INFO", "json"},
		`log.level: "info+2"`: {"info+2", "json"}, `log.format: "xml"`: {"info", "xml"}, `log.format: ""`: {"info", ""},
	} {
		if _, err := NewLogger(io.Discard, "x", cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := NewLogger(io.Discard, "x", DefaultLogConfig()); err != nil {
		t.Errorf("the default: %v", err)
	}
}

func TestAdminIsLocalUnlessAskedForMore(t *testing.T) {
	for _, row := range []struct {
		cfg  AdminConfig
		want string
	}{
		{AdminConfig{Listen: "127.0.0.1:0"}, ""},
		{AdminConfig{Listen: "[::1]:0"}, ""},
		{AdminConfig{Listen: "0.0.0.0:0", AllowRemote: true}, ""},
		{AdminConfig{Listen: "0.0.0.0:0"}, "admin.allowRemote"},
		{AdminConfig{Listen: ":0"}, "admin.allowRemote"},
		{AdminConfig{Listen: "127.0.0.1"}, "admin.listen"},
		{AdminConfig{}, "admin.listen"},
	} {
		err := row.cfg.Validate("admin")
		if (row.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%+v: %v", row.cfg, err)
		}
		if row.want == "" {
			continue
		}
		if admin, err := NewAdmin(row.cfg, NewMetrics(), &Readiness{}); err == nil {
			t.Errorf("%+v listens on %s", row.cfg, admin.Addr())
		}
	}
}

func TestAdminSaysATakenAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := NewAdmin(AdminConfig{Listen: taken.Addr().String()}, NewMetrics(), &Readiness{}); err == nil || !strings.HasPrefix(err.Error(), "admin.listen: ") {
		t.Error(err)
	}
}

func TestAdminServesUntilItsContextEnds(t *testing.T) {
	var notReady atomic.Pointer[error]
	readiness := &Readiness{}
	admin, err := NewAdmin(AdminConfig{Listen: "127.0.0.1:0"}, NewMetrics(), readiness)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	expect := func(method, path string, status int, part string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+admin.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != status || !strings.Contains(string(body), part) {
			t.Errorf("%s %s: %d, %v: %.200s", method, path, answer.StatusCode, err, body)
		}
	}
	expect("GET", "/livez", 200, "ok")
	expect("GET", "/readyz", 503, "starting")
	readiness.Waiting(errors.New("waits for the database"))
	expect("GET", "/readyz", 503, "waits for the database")
	readiness.Serve(
		Check{Name: "reads", Problem: func() error {
			if why := notReady.Load(); why != nil {
				return *why
			}
			return nil
		}},
		Check{Name: "writes", Problem: func() error { return errors.New("the disk is full") }, Informs: true},
	)
	expect("GET", "/readyz", 200, "ok")
	expect("GET", "/readyz?verbose", 200, "[+] reads: ok\n[-] writes: the disk is full (readiness does not depend on it)\nok")
	expect("GET", "/metrics", 200, "process_cpu_seconds_total")
	expect("GET", "/metrics", 200, "go_goroutines")
	expect("GET", "/debug/pprof/", 404, "")
	expect("POST", "/metrics", 405, "")
	why := errors.New("the database does not answer")
	notReady.Store(&why)
	expect("GET", "/readyz", 503, "the database does not answer")
	expect("GET", "/readyz?verbose", 503, "[-] reads: the database does not answer\n")
	expect("GET", "/livez", 200, "ok")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", admin.Addr()); err == nil {
		conn.Close()
		t.Error("it listens still")
	}
}

func TestAdminEndedBeforeItRan(t *testing.T) {
	admin, err := NewAdmin(AdminConfig{Listen: "127.0.0.1:0"}, NewMetrics(), &Readiness{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := admin.Run(ctx); err != nil {
		t.Error(err)
	}
}
