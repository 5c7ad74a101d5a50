package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/story"
)

// Agents that the local system starts with: one or two of each kind.
const (
	busAgent    = "BM-AMS-01"
	secondAgent = "BM-AMS-02"
	bothAgent   = "BM-UTR-02"
	httpAgent   = "BM-QA-03"
	newAgent    = "BM-NEW-04"
	silentAgent = "BM-OLD-05"
	directAgent = "BM-EDGE-06"
)

// HandfulOfAgents is a small fleet with every kind of agent in it.
func HandfulOfAgents() []fleet.Agent {
	return []fleet.Agent{
		{Name: busAgent, ServiceBus: true},
		{Name: secondAgent, ServiceBus: true},
		{Name: bothAgent, ServiceBus: true, HTTP: true},
		{Name: httpAgent, HTTP: true},
		{Name: newAgent, ServiceBus: true},
		{Name: silentAgent, ServiceBus: true},
		{Name: directAgent, Direct: true, HTTP: true},
	}
}

// Enrol does what an operator would: accepts all but the new agent, adds the HTTP agent by hand, verifies HTTP, and lets one
// agent fall silent. What was decided in an earlier run stays as it is.
func Enrol(ctx context.Context, system *System) error {
	operator := story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 10 * time.Second}}
	for _, name := range []string{busAgent, secondAgent, bothAgent, silentAgent, directAgent} {
		if err := accept(ctx, operator, name); err != nil {
			return err
		}
	}
	base, err := system.Fleet.HTTPBaseURL(httpAgent)
	if err != nil {
		return err
	}
	if err := addByHand(ctx, operator, httpAgent, base); err != nil {
		return err
	}
	for _, name := range []string{bothAgent, directAgent} {
		if base, err = system.Fleet.HTTPBaseURL(name); err != nil {
			return err
		}
		if err := setBaseURL(ctx, operator, name, base); err != nil {
			return err
		}
	}
	for _, name := range []string{httpAgent, bothAgent, directAgent} {
		if _, err := expect(operator.Do(ctx, http.MethodPost, "/api/config/agents/"+name+":verifyHttp", map[string]any{}, "")); err != nil {
			return err
		}
	}
	return system.Fleet.Silence(silentAgent)
}

// accept waits until the agent was heard, then accepts it and creates its server if there is none.
func accept(ctx context.Context, operator story.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		agent, err := operator.Do(ctx, http.MethodGet, "/api/config/agents/"+name, nil, "")
		if err != nil {
			return err
		}
		if agent.Status == http.StatusOK {
			if agent.Text("registrationState") != "REGISTRATION_STATE_PENDING" {
				return nil
			}
			server := map[string]any{"createServer": map[string]any{"url": "https://" + name + ".example.test"}}
			_, err = expect(operator.Do(ctx, http.MethodPost, "/api/config/agents/"+name+":accept", server, agent.Text("etag")))
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not heard: %w", name, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func addByHand(ctx context.Context, operator story.Client, name, base string) error {
	known, err := operator.Do(ctx, http.MethodGet, "/api/config/agents/"+name, nil, "")
	if err != nil || known.Status == http.StatusOK {
		return errors.Join(err, setBaseURL(ctx, operator, name, base))
	}
	_, err = expect(operator.Do(ctx, http.MethodPost, "/api/config/agents", map[string]any{
		"name": name, "httpBaseUrl": base, "createServer": map[string]any{"url": "https://" + name + ".example.test"},
	}, ""))
	return err
}

// setBaseURL sets where the agent serves HTTP, which is another port at every start.
func setBaseURL(ctx context.Context, operator story.Client, name, base string) error {
	agent, err := expect(operator.Do(ctx, http.MethodGet, "/api/config/agents/"+name, nil, ""))
	if err != nil || agent.Text("httpBaseUrl") == base {
		return err
	}
	_, err = expect(operator.Do(ctx, http.MethodPatch, "/api/config/agents/"+name, map[string]any{"httpBaseUrl": base}, agent.Text("etag")))
	return err
}

func expect(answer story.Answer, err error) (story.Answer, error) {
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("answered %d %s", answer.Status, answer.Raw)
	}
	return answer, err
}
