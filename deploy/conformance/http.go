package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"google.golang.org/protobuf/proto"
)

// httpRules are of commands over HTTP.
func httpRules() []rule {
	all := []rule{
		{"H.1", "a ping is answered without credentials", pings},
		{"H.2", "a command is answered 200 with its result", commandsOverHTTP},
		{"H.3", "a refusal is answered 200 as well", refusesOverHTTP},
		{"H.4", "a body that is no command is answered 400, and of another type 415", refusesBodies},
		{"H.5", "a command and a question without the token are answered 401", asksForToken},
		{"H.6", "a record is answered 200, also of a command that it never had; an id that is no UUID 400", recordsOverHTTP},
		{"H.7", "an id that came over the bus is the same id over HTTP", sharesIDs},
	}
	for i, one := range all {
		try := one.try
		all[i].try = func(ctx context.Context, r *run) verdict {
			if r.BaseURL == "" {
				return notTried("it needs -base-url")
			}
			return try(ctx, r)
		}
	}
	return all
}

// exchange is one answer over HTTP.
type exchange struct {
	status int
	kind   string
	body   []byte
}

// call makes one request; token says whether the token goes with it.
func (r *run) call(ctx context.Context, method, path, kind string, body []byte, token bool) (exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.BaseURL, "/")+"/agent/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return exchange{}, err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if token && r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return exchange{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	return exchange{response.StatusCode, response.Header.Get("Content-Type"), content}, err
}

// into reads a body that was answered with 200.
func (e exchange) into(m proto.Message) error {
	if e.status != http.StatusOK {
		return fmt.Errorf("it was answered %d %.200s", e.status, e.body)
	}
	return decode(e.kind, e.body, m)
}

// post sends a command in JSON.
func (r *run) post(ctx context.Context, command fields) (answer, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return answer{}, err
	}
	got, err := r.call(ctx, http.MethodPost, "commands", mediaJSON, body, true)
	a := answer{CommandResult: &agentv1.CommandResult{}, contentType: got.kind}
	if err == nil {
		err = got.into(a.CommandResult)
	}
	return a, err
}

func pings(ctx context.Context, r *run) verdict {
	got, err := r.call(ctx, http.MethodGet, "ping", "", nil, false)
	pong := &agentv1.PingResponse{}
	if err == nil {
		err = got.into(pong)
	}
	switch {
	case err != nil:
		return failed("%v", err)
	case !sameName(pong.GetName(), r.Name):
		return failed("it is answered by %q", pong.GetName())
	}
	return passed("by %q, boot %s", pong.GetName(), pong.GetBootId())
}

func commandsOverHTTP(ctx context.Context, r *run) verdict {
	command := r.command(r.read())
	a, err := r.post(ctx, command)
	switch {
	case err != nil || !carriedOut(a.CommandResult):
		return failed("a read was answered %s", words(a, err))
	case a.GetCommandId() != command.id():
		return failed("commandId is %q", a.GetCommandId())
	}
	return passed("%s", words(a, nil))
}

func refusesOverHTTP(ctx context.Context, r *run) verdict {
	a, err := r.post(ctx, r.command(r.read()).with("targetAgent", r.agentName()+"-other"))
	if problem := refusedFor(wrongAgent, a, err); problem != "" {
		return failed("%s", problem)
	}
	return passed("WRONG_AGENT")
}

func refusesBodies(ctx context.Context, r *run) verdict {
	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{mediaJSON, `{"commandId": "`, http.StatusBadRequest},
		{"text/plain", "restart everything", http.StatusUnsupportedMediaType},
	} {
		got, err := r.call(ctx, http.MethodPost, "commands", c.kind, []byte(c.body), true)
		if err != nil || got.status != c.want {
			return failed("%s %q was answered %d, not %d (%v)", c.kind, c.body, got.status, c.want, err)
		}
	}
	return passed("400 and 415")
}

func asksForToken(ctx context.Context, r *run) verdict {
	if r.Token == "" {
		return notTried("it needs -token-file")
	}
	body, err := json.Marshal(r.command(r.read()))
	if err != nil {
		return notTried("%v", err)
	}
	for _, c := range []struct {
		method, path string
		body         []byte
	}{{http.MethodPost, "commands", body}, {http.MethodGet, "commands/" + newID(), nil}} {
		got, err := r.call(ctx, c.method, c.path, mediaJSON, c.body, false)
		if err != nil || got.status != http.StatusUnauthorized {
			return failed("%s %s was answered %d, not 401 (%v)", c.method, c.path, got.status, err)
		}
	}
	return passed("401")
}

func recordsOverHTTP(ctx context.Context, r *run) verdict {
	record := func(id string) (*agentv1.CommandRecord, error) {
		got, err := r.call(ctx, http.MethodGet, "commands/"+id, "", nil, true)
		found := &agentv1.CommandRecord{}
		if err == nil {
			err = got.into(found)
		}
		return found, err
	}
	if found, err := record(newID()); err != nil || found.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
		return failed("an id that it never had: %v %v", found, err)
	}
	if r.carryOut(ctx) == "" {
		if found, err := record(r.writeID); err != nil || found.GetState() != agentv1.CommandState_COMMAND_STATE_FINISHED {
			return failed("a command that was answered: %v %v", found, err)
		}
	}
	if got, err := r.call(ctx, http.MethodGet, "commands/no-uuid", "", nil, true); err != nil || got.status != http.StatusBadRequest {
		return failed("an id that is no UUID was answered %d, not 400 (%v)", got.status, err)
	}
	return passed("NEVER_RECEIVED, and 400")
}

func sharesIDs(ctx context.Context, r *run) verdict {
	if problem := r.carryOut(ctx); problem != "" {
		return notTried("%s", problem)
	}
	second, err := r.post(ctx, r.command(r.write).with("commandId", r.writeID))
	if wrong := another(r.writeDone, second, err); wrong != "" {
		return failed("%s", wrong)
	}
	return passed("it was answered as over the bus")
}
