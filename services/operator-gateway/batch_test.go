package operatorgateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// lines are the events of a batch.
func lines(t *testing.T, body string) (items []map[string]any, summary map[string]any) {
	t.Helper()
	for line := range strings.Lines(body) {
		var event map[string]map[string]any
		check(t, json.Unmarshal([]byte(line), &event))
		if event["item"] != nil {
			items = append(items, event["item"])
		} else {
			summary = event["summary"]
		}
	}
	return items, summary
}

func TestABatchIsAnsweredAgentByAgent(t *testing.T) {
	first, second, third := startAgent(t, "BM-01"), startAgent(t, "BM-02"), startAgent(t, "BM-03")
	second.answer = func(context.Context, *agentv1.Command) *agentv1.CommandResult {
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_FAILED, Message: "stuck"}
	}
	g := startGateway(t, startRegistry(t, overHTTP(first, accepted), overHTTP(second, accepted), overHTTP(third, accepted), overHTTP(startAgent(t, "BM-04"), pending)), nil)
	answered := g.do("POST", "/api/agents:batch", `{"agents": ["BM-04", "bm-01", "BM-02", "BM-03", "nobody"], "restartService": {"service": "W3SVC"}, "parallelism": 1, "failureLimit": 2}`)
	if answered.status != 200 || answered.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s %s", answered.status, answered.header, answered.body)
	}
	items, summary := lines(t, answered.body)
	want := []string{"BATCH_OUTCOME_NOT_SENT", "BATCH_OUTCOME_SUCCEEDED", "BATCH_OUTCOME_FAILED", "BATCH_OUTCOME_NOT_STARTED", "BATCH_OUTCOME_NOT_STARTED"}
	if len(items) != len(want) {
		t.Fatal(answered.body)
	}
	for i, item := range items {
		if item["outcome"] != want[i] {
			t.Errorf("%v, not %s", item, want[i])
		}
	}
	if items[0]["reason"] != "AGENT_NOT_ACCEPTED" || items[2]["reason"] != "AGENT_FAILED" || !strings.Contains(items[3]["detail"].(string), "nothing was sent") {
		t.Error(answered.body)
	}
	if summary["succeeded"] != 1.0 || summary["failed"] != 1.0 || summary["notSent"] != 1.0 || summary["notStarted"] != 2.0 || summary["stopped"] != "the limit of failures was reached" {
		t.Error(summary)
	}
	if len(third.commands()) != 0 {
		t.Error("it went on")
	}
	if log := g.log.String(); strings.Count(log, "audit: command") != 3 || !strings.Contains(log, "audit: batch") || !strings.Contains(log, `never_started="[BM-03 nobody]"`) {
		t.Error(log)
	}
}

func TestI17_ABadBatchNamesTheFieldAndSendsNothing(t *testing.T) {
	agent := startAgent(t, "BM-01")
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	for body, pointer := range map[string]string{
		``:                      "/agents",
		`{"agents": ["BM-01"]}`: "operation",
		`{"agents": ["BM-01"], "restartService": {}}`:                                                "/restartService/service",
		`{"agents": ["BM-01", "bm-01"], "restartService": {"service": "s"}}`:                         "/agents/1",
		`{"agents": [], "restartService": {"service": "s"}}`:                                         "/agents",
		`{"agents": ["BM-01"], "restartService": {"service": "s"}, "parallelism": 65}`:               "/parallelism",
		`{"agents": ["BM-01"], "restartService": {"service": "s"}, "failureLimit": -1}`:              "/failureLimit",
		`{"agents": ["BM-01"], "restartService": {"service": "s"}, "sometimes": 1}`:                  "/sometimes",
		`{"agents": ["BM-01"], "restartService": {"service": "s"}, "stopService": {"service": "s"}}`: "stopService",
		`{"agents": `: "",
	} {
		answered := g.do("POST", "/api/agents:batch", body)
		if answered.status != 400 || answered.reason() != "INVALID_ARGUMENT" || !strings.Contains(answered.body, pointer) || answered.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", body, answered.status, answered.body)
		}
	}
	if answered := g.do("GET", "/api/agents:batch", ""); answered.status != 405 {
		t.Errorf("%d %s", answered.status, answered.body)
	}
	if got := agent.commands(); len(got) != 0 {
		t.Errorf("%d commands were sent", len(got))
	}
}

// The caller of a batch goes away: its commands under way are finished and on record, and no more are sent.
func TestI3_ACallerWhoLeavesABatchStopsIt(t *testing.T) {
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	first, second := startAgent(t, "BM-01"), startAgent(t, "BM-02")
	first.answer = func(context.Context, *agentv1.Command) *agentv1.CommandResult {
		arrived <- struct{}{}
		<-answer
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED}
	}
	g := startGateway(t, startRegistry(t, overHTTP(first, accepted), overHTTP(second, accepted)), nil)
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.at.REST+"/api/agents:batch",
		strings.NewReader(`{"agents": ["BM-01", "BM-02"], "restartService": {"service": "W3SVC"}, "parallelism": 1}`))
	check(t, err)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request); err == nil {
			_, _ = bufio.NewReader(response.Body).ReadString('\n')
			_ = response.Body.Close()
		}
	}()
	<-arrived
	leave()
	<-left
	// The gateway learns of it in its own time, and then lets no more start.
	eventually(t, "the caller is gone", func() bool { return strings.Contains(g.log.String(), "path=/api/agents:batch") })
	close(answer)
	eventually(t, "the batch is on record", func() bool { return strings.Contains(g.log.String(), "audit: batch") })
	if log := g.log.String(); !strings.Contains(log, `never_started=[BM-02]`) || !strings.Contains(log, "outcome=succeeded") {
		t.Error(log)
	}
	if got := second.commands(); len(got) != 0 {
		t.Errorf("%d commands went to the second", len(got))
	}
}
