package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

// beAgent is set for a process of this binary that is an agent.
const beAgent = "AGENT_CONFORMANCE_TEST_AGENT"

// listenEnv is where that agent serves HTTP; empty: it does not.
const listenEnv = "AGENT_CONFORMANCE_TEST_LISTEN"

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) == "" {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		panic(err)
	}
}

// serve is an agent of the SDK, until it is told to end.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: os.Getenv("SERVICEBUS_CONNECTION_STRING")})
	if err != nil {
		return err
	}
	var http *agent.HTTPConfig
	if listen := os.Getenv(listenEnv); listen != "" {
		http = &agent.HTTPConfig{Listen: listen}
	}
	name := os.Getenv("AGENT_NAME")
	made, err := agent.New(agent.Config{
		Name: name, Host: simulated.New(name, simulated.Options{}), Bus: bus, HTTP: http, JournalPath: os.Getenv(beAgent),
		Heartbeat: agent.HeartbeatConfig{Interval: 4 * time.Second},
	})
	if err != nil {
		return err
	}
	return made.Run(ctx)
}

// The command starts the emulator and the agent, tries the rules, and says how many are broken.
func TestTheCommandRunsAnAgentAndReports(t *testing.T) {
	t.Setenv(beAgent, filepath.Join(t.TempDir(), "journal"))
	var out bytes.Buffer
	failed, err := run(t.Context(), []string{
		"-name", "BM-1", "-run", os.Args[0], "-interval", "4s", "-only", "1.1,4.1,6.2,6.6",
	}, &out)
	if err != nil || failed != 0 {
		t.Fatalf("%d failed: %v\n%s", failed, err, out.String())
	}
	for _, said := range []string{"passed    1.1 ", "passed    2.1 ", "passed    4.1 ", "passed    6.2 ", "passed    6.6 ", "\n5 passed, 0 failed, 0 not tried\n"} {
		if !strings.Contains(out.String(), said) {
			t.Errorf("it does not say %q:\n%s", said, out.String())
		}
	}
}

// The process of an agent of the SDK stands still with a command on its way, over the bus and over HTTP, and starts nothing after that.
func TestI24_TheSDKsAgentStartsNothingLate(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("NOT RUN: processes can't be made to stand still here")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	_ = free.Close()
	t.Setenv(beAgent, filepath.Join(t.TempDir(), "journal"))
	t.Setenv(listenEnv, listen)
	var out bytes.Buffer
	failed, err := run(t.Context(), []string{
		"-name", "BM-1", "-run", os.Args[0], "-interval", "4s", "-base-url", "http://" + listen, "-only", "4.8,4.9,4.10",
	}, &out)
	if err != nil || failed != 0 {
		t.Fatalf("%d failed: %v\n%s", failed, err, out.String())
	}
	for _, said := range []string{"passed    4.8 ", "passed    4.9 ", "passed    4.10", "over the bus and over HTTP", "\n4 passed, 0 failed, 0 not tried\n"} {
		if !strings.Contains(out.String(), said) {
			t.Errorf("it does not say %q:\n%s", said, out.String())
		}
	}
}

// An agent that the caller starts is told where the bus is; one that never comes is an error that says so.
func TestTheCommandSaysWhereTheBusIs(t *testing.T) {
	var out bytes.Buffer
	_, err := run(t.Context(), []string{"-name", "BM-1", "-interval", "10ms", "-patience", "100ms"}, &out)
	if err == nil || !strings.Contains(err.Error(), `no heartbeat of "BM-1"`) || !strings.Contains(out.String(), "Endpoint=sb://127.0.0.1:") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestSettingsThatContradictAreNamed(t *testing.T) {
	for args, named := range map[string]string{
		"":                                     "-name",
		"-name a -run b -restart-command c":    "-restart-command",
		"-name a -token-file /no/such/file":    "-token-file",
		"-name a -connection-string-file /no/": "-connection-string-file",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: %v does not name %s", args, err, named)
		}
	}
}
