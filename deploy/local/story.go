package local

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/story"
)

// lateReplies is the gateway's counter of replies that came after their command was answered as unknown.
const lateReplies = "commandcenter_gateway_late_replies_total"

// StartStory starts a fresh system for the story: nobody accepted, and times short enough to be watched.
func StartStory(ctx context.Context, dir string) (story.World, func(), error) {
	log, err := os.Create(filepath.Join(dir, "local.log"))
	if err != nil {
		return story.World{}, nil, err
	}
	system, err := Start(ctx, Config{
		Dir: dir, REST: "127.0.0.1:0", AnyPorts: true, Log: log,
		HeartbeatInterval: time.Second, WriteBudget: 4 * time.Second,
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
		Client: story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}},
		Fleet:  system.Fleet,
		LateReplies: func(ctx context.Context) (int, error) {
			return readCounter(ctx, "http://"+system.Metrics["operator-gateway"]+"/metrics", lateReplies)
		},
		Wait: 30 * time.Second,
	}, stop, nil
}

// readCounter sums a counter over its labels, as a Prometheus scrape shows it; zero before its first count.
func readCounter(ctx context.Context, url, name string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), " ")
		if family, _, _ := strings.Cut(series, "{"); !found || family != name {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += number
	}
	return int(sum), lines.Err()
}
