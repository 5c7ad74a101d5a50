package local

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/story"
)

// StartStory starts a fresh system for the story: nobody accepted, and times short enough to be watched.
func StartStory(ctx context.Context, dir string) (story.World, func(), error) {
	log, err := os.Create(filepath.Join(dir, "local.log"))
	if err != nil {
		return story.World{}, nil, err
	}
	system, err := Start(ctx, Config{
		Dir: dir, REST: "127.0.0.1:0", AnyPorts: true, Log: log,
		HeartbeatInterval: time.Second, SweepInterval: 500 * time.Millisecond, AvailabilityReplicas: 2, WriteBudget: 4 * time.Second,
		Agents: []fleet.Agent{
			{Name: story.Bus, ServiceBus: true},
			{Name: story.Both, ServiceBus: true, HTTP: true},
			{Name: story.HTTP, HTTP: true},
			{Name: story.Pending, ServiceBus: true},
			{Name: story.Spare, ServiceBus: true},
		},
	})
	if err != nil {
		_ = log.Close()
		return story.World{}, nil, err
	}
	stop := func() {
		if err := system.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping:", err)
		}
		_ = log.Close()
	}
	return story.World{
		Client:    story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}},
		Fleet:     system.Fleet,
		Ingest:    system.Ingest(),
		LateReply: func(commandID string) (string, error) { return logged(log.Name(), "late reply", commandID) },
		Wait:      30 * time.Second,
	}, stop, nil
}

// logged is the first line of a log that holds all the texts; empty while there is none.
func logged(path string, texts ...string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return strings.TrimSpace(line), nil
		}
	}
	return "", nil
}
