package ingress

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestEnrolmentKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(" fake-key\n")
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		key, err := OpenEnrolmentKey("ingress.enrolmentKeyFile", path, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- key.Run(ctx) }()
		look := func(good, bad string) {
			t.Helper()
			time.Sleep(2 * reloadInterval) // of the bubble's time
			synctest.Wait()
			if !key.Matches(good) || key.Matches(bad) || key.Matches("") || key.Matches(good+" ") {
				t.Errorf("matches: %s %v, %s %v", good, key.Matches(good), bad, key.Matches(bad))
			}
		}
		look("fake-key", "fake-next")
		write("fake-next")
		look("fake-next", "fake-key")
		write("") // bad: the last one stays, and is complained of once
		look("fake-next", "fake-key")
		look("fake-next", "fake-key")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		look("fake-next", "fake-key")
		write("fake-last")
		look("fake-last", "fake-next")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		text := log.String()
		if strings.Count(text, "level=ERROR") != 2 || strings.Count(text, "reloaded") != 2 || strings.Contains(text, "fake-") {
			t.Errorf("logged:\n%s", text)
		}
	})
	for content, want := range map[string]string{"": "is empty", strings.Repeat("k", 257): "256 characters"} {
		write(content)
		if _, err := OpenEnrolmentKey("ingress.enrolmentKeyFile", path, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "ingress.enrolmentKeyFile: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%d characters: %v", len(content), err)
		}
	}
}

func TestPointerOf(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "heartbeat": "/heartbeat", "heartbeat.name": "/heartbeat/name",
		"heartbeat.iis_bindings.bindings[12].site_name": "/heartbeat/iisBindings/bindings/12/siteName",
		"heartbeat.capabilities[0]":                     "/heartbeat/capabilities/0",
	} {
		if got := pointerOf(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// Every result that is, or may yet be, has an answer; only those after which the heartbeat's effect is stored are OK.
func TestEveryResultIsAnswered(t *testing.T) {
	want := map[registryv1.HeartbeatResult][2]fault.Reason{ // of a heartbeat, of a registration
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_UNSPECIFIED:    {fault.Internal, fault.Internal},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED:        {"", ""},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED:        {"", ""},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_STALE:          {"", ""},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_DUPLICATE:      {"", ""},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID:        {fault.InvalidArgument, fault.InvalidArgument},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_WRONG_TOKEN:    {fault.Unauthenticated, fault.IdentityConflict},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_REGISTERED: {fault.NotRegistered, fault.NotRegistered},
		registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_CLAIMABLE:  {fault.NotClaimable, fault.NotClaimable},
		99: {fault.Internal, fault.Internal},
	}
	for number := range registryv1.HeartbeatResult_name {
		if _, listed := want[registryv1.HeartbeatResult(number)]; !listed {
			t.Errorf("%s has no answer here", registryv1.HeartbeatResult(number))
		}
	}
	for result, reasons := range want {
		for i, enrols := range []bool{false, true} {
			refused := refusalOf(&registryv1.RecordedHeartbeat{Result: result, Field: "heartbeat.name"}, "BM-1", enrols)
			if (refused == nil) != (reasons[i] == "") || (refused != nil && refused.Reason != reasons[i]) {
				t.Errorf("%s, enrols %v: %v", result, enrols, refused)
			}
		}
	}
}
