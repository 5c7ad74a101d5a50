// Package http sends commands to agents over HTTP: one POST each, never sent again.
package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

// maxAnswerBytes bounds an agent's answer.
const maxAnswerBytes = 8 << 20

var readJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

// Transport is the HTTP transport. Both clients are required.
type Transport struct {
	// Client is for verified base URLs; it may present a client certificate.
	Client *http.Client
	// Anonymous is for base URLs that are not verified; it presents nothing.
	Anonymous *http.Client
	// Token is what agents expect; it goes to verified URLs only. Empty: none.
	Token config.Secret
}

// Prepare has nothing to do: connecting is part of sending, and comes before anything is written.
func (t *Transport) Prepare(context.Context) error { return nil }

// Send posts one command, once, and reads the answer.
func (t *Transport) Send(ctx context.Context, target command.Target, cmd *agentv1.Command, still command.Still) (*agentv1.CommandResult, error) {
	content, err := protojson.Marshal(cmd)
	if err != nil {
		return nil, &command.NotSent{Reason: fault.Internal, Detail: "the command could not be written", Cause: err}
	}
	base, err := agenthttp.ParseBaseURL(target.BaseURL)
	if err != nil {
		return nil, &command.NotSent{Reason: fault.AgentUnreachable, Detail: fmt.Sprintf("the base URL of agent %q %v", target.Name, err)}
	}
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := &delivery{body: newBody(content), stop: cancel}
	request, err := sent.request(attempt, base.String()+"/agent/v1/commands", still)
	if err != nil {
		return nil, &command.NotSent{Reason: fault.AgentUnreachable, Detail: "the request could not be built", Cause: err}
	}
	client := t.Anonymous
	if target.Verified {
		client = t.Client
		if t.Token != "" {
			request.Header.Set("Authorization", "Bearer "+t.Token.Reveal())
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, sent.explain(ctx, target, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	return answer(response.StatusCode, raw, target, cmd)
}

// delivery is one POST on its way. Its head goes out first, and asks the agent's server to ask for the command (Expect:
// 100-continue). The command itself, which is the body, goes out when that answer is there, and only then: so an agent that stood
// still while the head waited gets no command, and what the agent gets was still to be started when it asked.
type delivery struct {
	body      *body
	stop      context.CancelFunc
	connected bool
	held      error // why the command was held back once there was a connection
}

// request builds the POST. Once there is a connection, and before anything is written, it is looked at again. It has a body and
// neither a GetBody nor an Idempotency-Key, so that net/http never sends it a second time on its own.
func (d *delivery) request(ctx context.Context, url string, still command.Still) (*http.Request, error) {
	looked := ctx
	// GotConn is called on the goroutine of Do, before the request is given to the connection.
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		d.connected = true
		until, err := still(looked)
		if err != nil {
			d.held = err
			d.body.withhold()
			d.stop()
			return
		}
		d.body.allow(until)
	}})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, url, d.body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = int64(d.body.content.Len())
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	return request, nil
}

var errWithheld = errors.New("the command is held back")

// body is a command on its way out. Without its body an agent has no command, so that one which was withheld before it was
// begun surely was not sent, whatever net/http's own goroutines still do.
type body struct {
	content *bytes.Reader

	mu                    sync.Mutex
	begun, withheld, late bool
	until                 time.Time // when it may begin at the latest
}

func newBody(content []byte) *body { return &body{content: bytes.NewReader(content)} }

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun && !b.withheld && time.Now().After(b.until) {
		b.withheld, b.late = true, true
	}
	if b.withheld {
		return 0, errWithheld
	}
	b.begun = true
	return b.content.Read(into)
}

// allow says until when it may begin to go out.
func (b *body) allow(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = until
}

// withhold makes sure that nothing more of it goes out, and tells whether anything did.
func (b *body) withhold() (begun, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withheld = true
	return b.begun, b.late
}

// explain tells an error before the command was written from one after.
func (d *delivery) explain(ctx context.Context, target command.Target, err error) error {
	begun, late := d.body.withhold()
	switch {
	case d.held != nil:
		return d.held
	case late: // decide again; the agent is awake now
		return &command.NotSent{Expired: true, Cause: err}
	case begun:
		return err
	case d.connected:
		return &command.NotSent{
			Reason: fault.AgentUnreachable, Cause: err,
			Detail: fmt.Sprintf("agent %q at %s did not ask for the command (it must answer Expect: 100-continue) before the time allowed ended or the connection did", target.Name, target.BaseURL),
		}
	case agenthttp.Refused(err):
		return &command.NotSent{
			Reason: fault.AgentUnreachable, Cause: err,
			Detail: fmt.Sprintf("agent %q may not be connected to at %s: the address is refused by the gateway's settings", target.Name, target.BaseURL),
		}
	}
	return &command.NotSent{
		// A caller with little time, or who went away, shows nothing about the agent.
		Reason: fault.AgentUnreachable, Unreachable: ctx.Err() == nil, Cause: err,
		Detail: fmt.Sprintf("agent %q cannot be connected to at %s", target.Name, target.BaseURL),
	}
}

// answer reads what an agent answered; it answers every command that it took with 200.
func answer(status int, raw []byte, target command.Target, cmd *agentv1.Command) (*agentv1.CommandResult, error) {
	if len(raw) > maxAnswerBytes {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswerBytes)
	}
	if why, refusedIt := refusals[status]; refusedIt {
		return refused(cmd, fmt.Sprintf("what answers at %s refused the request with HTTP %d (%s); nothing was done", target.BaseURL, status, why)), nil
	}
	if status >= 300 && status < 400 {
		return refused(cmd, fmt.Sprintf("what answers at %s redirects (HTTP %d), and redirects are not followed; nothing was done", target.BaseURL, status)), nil
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("the agent answered HTTP %d: %.200q", status, raw)
	}
	result := &agentv1.CommandResult{}
	if err := readJSON.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("the answer is no CommandResult: %w", err)
	}
	if result.GetCommandId() != cmd.GetCommandId() {
		return nil, fmt.Errorf("the answer is about command %q", result.GetCommandId())
	}
	return result, nil
}

// refusals are the answers with which a server says that it did not take the request at all. Any other but 200, a proxy's for
// example, leaves open whether the agent got it.
var refusals = map[int]string{
	http.StatusBadRequest:            "it does not understand it",
	http.StatusUnauthorized:          "it does not accept the gateway's credential, which is sent to verified URLs only",
	http.StatusForbidden:             "it does not accept the gateway's credential, which is sent to verified URLs only",
	http.StatusNotFound:              "it knows no such path; is the base URL right?",
	http.StatusMethodNotAllowed:      "it takes no commands there; is the base URL right?",
	http.StatusRequestEntityTooLarge: "the command is too large for it",
	http.StatusUnsupportedMediaType:  "it does not take JSON",
}

func refused(cmd *agentv1.Command, message string) *agentv1.CommandResult {
	return &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_REFUSED, Message: message}
}
