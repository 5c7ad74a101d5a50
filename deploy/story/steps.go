package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const (
	service = "W3SVC"
	pool    = "BenefitManager"
)

type object = map[string]any

func (t *teller) steps() []step {
	return []step{
		{"Agents announce themselves: each first heartbeat makes a Pending agent", t.agentsAppear},
		{"A command to a Pending agent is refused", t.pendingIsRefused},
		{"An operator accepts an agent whose server exists", t.acceptExisting},
		{"An operator accepts an agent and creates its server with a URL proposed from its IIS bindings", t.acceptCreating},
		{"Services are listed", t.listServices},
		{"A service is restarted over Service Bus", t.restartOverBus},
		{"An HTTP agent is added by hand, and a pool recycled over HTTP", t.recycleOverHTTP},
		{"The same agent in other case", t.otherCase},
		{"An agent gone silent is not called on a guess: nothing is sent", t.silenced},
		{"Its HTTP is verified: the same command goes over HTTP, and says so", t.verifiedFallback},
		{"An agent that takes a command and never answers: the outcome is unknown, and nothing is sent again", t.neverAnswers},
		{"Its late reply is noticed", t.lateReply},
		{"And its agent tells what became of the command", t.whatBecameOfIt},
		{"One operation on many agents: it stops at the first that fails, and says which were never asked", t.many},
		{"Two operators accept with one etag: one wins, the other is told", t.twoOperators},
		{"An agent is linked only to the server of its own name", t.otherName},
		{"A rejected agent takes no more commands", t.rejected},
	}
}

func (t *teller) agentsAppear(ctx context.Context) error {
	expected := []string{Bus, Both, Pending, Spare}
	err := t.until(ctx, "agents appear as Pending", func() (bool, error) {
		answer, err := t.Client.Do(ctx, http.MethodGet, "/api/config/agents?states=REGISTRATION_STATE_PENDING", nil, "")
		if err != nil {
			return false, err
		}
		for _, name := range expected {
			if !strings.Contains(answer.Raw, `"`+name+`"`) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	_, err = t.call(ctx, http.MethodGet, "/api/config/agents?states=REGISTRATION_STATE_PENDING", nil, "", answers(200, expected...))
	return err
}

func (t *teller) pendingIsRefused(ctx context.Context) error {
	_, err := t.call(ctx, http.MethodPost, at("agents", Bus, "services", service, "restart"), nil, "", answers(409, "AGENT_NOT_ACCEPTED"))
	return err
}

func (t *teller) acceptExisting(ctx context.Context) error {
	server := object{"name": Bus, "url": "https://ams-01.example.test"}
	if _, err := t.call(ctx, http.MethodPost, "/api/config/servers", server, "", answers(200, Bus)); err != nil {
		return err
	}
	_, err := t.decide(ctx, Bus, "accept", object{}, answers(200, "REGISTRATION_STATE_ACCEPTED", "https://ams-01.example.test"))
	return err
}

func (t *teller) acceptCreating(ctx context.Context) error {
	proposals, err := t.call(ctx, http.MethodGet, at("config", "agents", Both, "url-proposals"), nil, "", answers(200, `"offered":true`))
	if err != nil {
		return err
	}
	best := proposals.List("proposals")[0]
	url, _ := best["url"].(string)
	accepted, err := t.decide(ctx, Both, "accept", object{"createServer": object{"url": url}}, answers(200, "REGISTRATION_STATE_ACCEPTED"))
	if err != nil {
		return err
	}
	if accepted.Text("serverCreated") != "true" || accepted.Text("agent", "server", "url") != url {
		return fmt.Errorf("the server was not created with the proposed URL %s", url)
	}
	return nil
}

func (t *teller) listServices(ctx context.Context) error {
	_, err := t.call(ctx, http.MethodGet, at("agents", Bus, "services"), nil, "", answers(200, service, "SERVICE_STATUS_RUNNING"))
	return err
}

func (t *teller) restartOverBus(ctx context.Context) error {
	_, err := t.call(ctx, http.MethodPost, at("agents", Bus, "services", service, "restart"), nil, "",
		answers(200, "TRANSPORT_SERVICE_BUS", "commandId", "startedAt"))
	return err
}

func (t *teller) recycleOverHTTP(ctx context.Context) error {
	base, err := t.Fleet.HTTPBaseURL(HTTP)
	if err != nil {
		return err
	}
	agent := object{"name": HTTP, "httpBaseUrl": base, "createServer": object{"url": "https://qa-03.example.test"}}
	if _, err := t.call(ctx, http.MethodPost, "/api/config/agents", agent, "", answers(200, "REGISTRATION_STATE_ACCEPTED")); err != nil {
		return err
	}
	_, err = t.call(ctx, http.MethodPost, at("agents", HTTP, "iis", "app-pools", pool, "recycle"), nil, "", answers(200, "TRANSPORT_HTTP"))
	return err
}

func (t *teller) otherCase(ctx context.Context) error {
	_, err := t.call(ctx, http.MethodGet, at("agents", strings.ToLower(Bus), "certificates"), nil, "", answers(200, `"`+Bus+`"`, "thumbprint"))
	return err
}

func (t *teller) silenced(ctx context.Context) error {
	base, err := t.Fleet.HTTPBaseURL(Both)
	if err != nil {
		return err
	}
	etag, err := t.etag(ctx, Both)
	if err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodPatch, at("config", "agents", Both), object{"httpBaseUrl": base}, etag, answers(200, base)); err != nil {
		return err
	}
	if err := t.Fleet.Silence(Both); err != nil {
		return err
	}
	err = t.until(ctx, Both+" is stale", func() (bool, error) {
		route, err := t.Client.Do(ctx, http.MethodGet, at("agents", Both, "route"), nil, "")
		return route.Text("refusal") == "HEARTBEAT_STALE", err
	})
	if err != nil {
		return err
	}
	_, err = t.call(ctx, http.MethodPost, at("agents", Both, "services", service, "restart"), nil, "", answers(503, "HEARTBEAT_STALE"))
	return err
}

func (t *teller) verifiedFallback(ctx context.Context) error {
	if _, err := t.call(ctx, http.MethodPost, at("config", "agents", Both)+":verifyHttp", object{}, "", answers(200, "VERIFICATION_OUTCOME_SUCCEEDED", Both)); err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodGet, at("agents", Both, "route"), nil, "", answers(200, "TRANSPORT_HTTP")); err != nil {
		return err
	}
	answer, err := t.call(ctx, http.MethodPost, at("agents", Both, "services", service, "restart"), nil, "", answers(200, "TRANSPORT_HTTP"))
	if err != nil {
		return err
	}
	if answer.Text("fallback") == "" {
		return errors.New("the answer does not say that it fell back to HTTP")
	}
	return nil
}

func (t *teller) neverAnswers(ctx context.Context) error {
	if err := t.Fleet.Wake(Both); err != nil {
		return err
	}
	err := t.until(ctx, Both+" is heard again", func() (bool, error) {
		route, err := t.Client.Do(ctx, http.MethodGet, at("agents", Both, "route"), nil, "")
		return route.Text("transport") == "TRANSPORT_SERVICE_BUS", err
	})
	if err != nil {
		return err
	}
	before, err := t.Fleet.HTTPCommands(Both)
	if err != nil {
		return err
	}
	if err := t.Fleet.Mute(Both); err != nil {
		return err
	}
	answer, err := t.call(ctx, http.MethodPost, at("agents", Both, "services", service, "restart"), nil, "", answers(503, "OUTCOME_UNKNOWN"))
	if err != nil {
		return err
	}
	if t.unanswered = answer.Text("commandId"); t.unanswered == "" {
		return errors.New("the answer does not name the command")
	}
	after, err := t.Fleet.HTTPCommands(Both)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(t.out, "  commands over HTTP to %s: %d before, %d after\n", Both, before, after)
	if after != before {
		return errors.New("a command was sent again over HTTP")
	}
	return nil
}

func (t *teller) lateReply(ctx context.Context) error {
	if err := t.Fleet.Answer(Both); err != nil {
		return err
	}
	return t.until(ctx, "the late reply is logged", func() (bool, error) {
		line, err := t.LateReply(t.unanswered)
		if line != "" {
			_, _ = fmt.Fprintf(t.out, "  in the gateway's log: %s\n", line)
		}
		return line != "", err
	})
}

func (t *teller) whatBecameOfIt(ctx context.Context) error {
	return t.until(ctx, "the command is finished", func() (bool, error) {
		answer, err := t.call(ctx, http.MethodGet, at("agents", Both, "commands", t.unanswered), nil, "", answers(200, t.unanswered))
		return answer.Text("record", "state") == "COMMAND_STATE_FINISHED" && answer.Text("record", "result", "outcome") == "OUTCOME_SUCCEEDED", err
	})
}

func (t *teller) many(ctx context.Context) error {
	batch := object{"agents": []string{Bus, Pending, Both}, "parallelism": 1, "restartService": object{"service": service}}
	answer, err := t.call(ctx, http.MethodPost, "/api/agents:batch", batch, "", answers(200, `"stopped":"the limit of failures was reached"`))
	if err != nil {
		return err
	}
	for i, outcome := range []string{"BATCH_OUTCOME_SUCCEEDED", "BATCH_OUTCOME_NOT_SENT", "BATCH_OUTCOME_NOT_STARTED", `"succeeded":1`} {
		lines := strings.Split(answer.Raw, "\n")
		if len(lines) != 4 || !strings.Contains(lines[i], outcome) {
			return fmt.Errorf("line %d of 4 lacks %s", i+1, outcome)
		}
	}
	return nil
}

func (t *teller) twoOperators(ctx context.Context) error {
	server := object{"name": Pending, "url": "https://new-04.example.test"}
	if _, err := t.call(ctx, http.MethodPost, "/api/config/servers", server, "", answers(200, Pending)); err != nil {
		return err
	}
	etag, err := t.etag(ctx, Pending)
	if err != nil {
		return err
	}
	type outcome struct {
		answer Answer
		err    error
	}
	outcomes := make(chan outcome, 2)
	for range 2 {
		go func() {
			answer, err := t.Client.Do(ctx, http.MethodPost, at("config", "agents", Pending)+":accept", object{}, etag)
			outcomes <- outcome{answer, err}
		}()
	}
	seen := map[int]int{}
	for range 2 {
		got := <-outcomes
		if got.err != nil {
			return got.err
		}
		_, _ = fmt.Fprintf(t.out, "  POST %s:accept → %d %s\n", at("config", "agents", Pending), got.answer.Status, shorten(got.answer.Raw))
		seen[got.answer.Status]++
	}
	if seen[200] != 1 || seen[412] != 1 {
		return fmt.Errorf("expected one 200 and one 412, got %v", seen)
	}
	return nil
}

func (t *teller) otherName(ctx context.Context) error {
	_, err := t.decide(ctx, Spare, "accept", object{"serverName": Bus}, answers(409, "NAME_MISMATCH"))
	return err
}

func (t *teller) rejected(ctx context.Context) error {
	if _, err := t.decide(ctx, Pending, "reject", object{}, answers(200, "REGISTRATION_STATE_REJECTED")); err != nil {
		return err
	}
	_, err := t.call(ctx, http.MethodGet, at("agents", Pending, "services"), nil, "", answers(409, "AGENT_NOT_ACCEPTED"))
	return err
}
