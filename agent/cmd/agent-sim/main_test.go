package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/internal/standin"
)

// output is what is printed, and tells when a word was.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) has(s string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.text.String(), s)
}

func TestItRunsAndEndsCleanly(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	out, ended := &output{}, make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-agents", "5", "-transport", "http", "-prefix", "T-", "-control", "127.0.0.1:0"}, out)
	}()
	for deadline := time.Now().Add(2 * time.Minute); !out.has("all agents take commands") || !out.has("control at"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never said that it was ready")
		}
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !out.has("5 agents, T-0001 to T-0005") || !out.has("stopping") {
		t.Error(out.text.String())
	}
}

func TestDirectAgentsTellWhatTheyDid(t *testing.T) {
	cloud := standin.New(t, "a")
	ctx, interrupt := context.WithCancel(t.Context())
	out, ended := &output{}, make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{
			"-agents", "3", "-transport", "direct", "-control-servers", cloud.Server("a").Endpoint, "-enrolment-key-file", cloud.KeyFile(),
			"-state-dir", t.TempDir(), "-heartbeat", "100ms",
		}, out)
	}()
	heard := map[string]bool{}
	for deadline := time.Now().Add(2 * time.Minute); len(heard) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("heard %v", heard)
		}
		for _, c := range cloud.Calls() {
			if c.Method == "Heartbeat" {
				heard[c.Agent] = true
			}
		}
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !out.has("registrations 3") || !out.has("failovers 0") {
		t.Error(out.text.String())
	}
}

func TestI17_BadFlagsAreRefusedByName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-agents":                              {"-agents", "0"},
		"-transport":                           {"-transport", "pigeon"},
		"-connection-string-file: is required": {},
		"-connection-string-file: open":        {"-connection-string-file", empty + "x"},
		"is empty":                             {"-connection-string-file", empty},
		"-control-servers: is required":        {"-transport", "direct"},
		"-control-servers: -transport":         {"-transport", "http", "-control-servers", "a:1"},
		"-enrolment-key-file":                  {"-transport", "direct", "-control-servers", "a:1"},
		"\"a\" is not host:port":               {"-transport", "direct", "-control-servers", "a", "-enrolment-key-file", empty},
		"-token-file":                          {"-transport", "http", "-token-file", empty + "x"},
		"-log-level":                           {"-log-level", "loud"},
		"-control":                             {"-transport", "http", "-control", "192.0.2.1:80"},
		"not defined":                          {"-explode"},
	} {
		if err := run(t.Context(), args, &output{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAStormIsRehearsed(t *testing.T) {
	out := &output{}
	if err := run(t.Context(), []string{"storm", "-agents", "300", "-servers", "3"}, out); err != nil {
		t.Fatal(err)
	}
	if !out.has("100 agents worked with what failed") || !out.has(" 0 lost") || !out.has("connects") {
		t.Error(out.text.String())
	}
	if err := run(t.Context(), []string{"storm", "-servers", "0"}, out); err == nil {
		t.Error("no control server at all is taken")
	}
}
