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
	"sync/atomic"
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

// Transport is the HTTP transport.
type Transport struct {
	Client *http.Client
	// Token is what agents expect; it goes to verified URLs only. Empty: none.
	Token config.Secret
}

// Prepare has nothing to do: connecting is part of sending, and comes before anything is written.
func (t *Transport) Prepare(context.Context) error { return nil }

// Send posts one command, once, and reads the answer.
func (t *Transport) Send(ctx context.Context, target command.Target, cmd *agentv1.Command, validUntil time.Time) (*agentv1.CommandResult, error) {
	body, err := protojson.Marshal(cmd)
	if err != nil {
		return nil, &command.NotSent{Reason: fault.Internal, Detail: "the command could not be written", Cause: err}
	}
	request, sent, err := t.request(ctx, target, body, validUntil)
	if err != nil {
		return nil, err
	}
	response, err := t.Client.Do(request)
	if err != nil {
		return nil, sent.explain(target, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	return answer(response.StatusCode, raw, target, cmd)
}

// progress is how far a request came.
type progress struct {
	connected, written, expired atomic.Bool
}

// request builds the POST. It has a body and no GetBody, so that net/http never sends it a second time on its own.
func (t *Transport) request(ctx context.Context, target command.Target, body []byte, validUntil time.Time) (*http.Request, *progress, error) {
	base, err := agenthttp.ParseBaseURL(target.BaseURL)
	if err != nil {
		return nil, nil, &command.NotSent{Reason: fault.AgentUnreachable, Detail: fmt.Sprintf("the base URL of agent %q %v", target.Name, err)}
	}
	sent := &progress{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { sent.connected.Store(true) },
		WroteHeaders: func() { sent.written.Store(true) },
	})
	guarded := &guardedBody{Reader: bytes.NewReader(body), validUntil: validUntil, sent: sent}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base.String()+"/agent/v1/commands", guarded)
	if err != nil {
		return nil, nil, &command.NotSent{Reason: fault.AgentUnreachable, Detail: "the request could not be built", Cause: err}
	}
	request.ContentLength = int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	if t.Token != "" && target.Verified {
		request.Header.Set("Authorization", "Bearer "+t.Token.Reveal())
	}
	return request, sent, nil
}

var errExpired = errors.New("the decision was too old by the time there was a connection")

// guardedBody withholds the command when connecting took so long that its decision is no longer good. Without its body the
// agent has no command.
type guardedBody struct {
	io.Reader
	validUntil time.Time
	begun      bool
	sent       *progress
}

func (b *guardedBody) Read(into []byte) (int, error) {
	if !b.begun && time.Now().After(b.validUntil) {
		b.sent.expired.Store(true)
		return 0, errExpired
	}
	b.begun = true
	return b.Reader.Read(into)
}

// explain tells an error before anything was written from one after.
func (p *progress) explain(target command.Target, err error) error {
	switch {
	case p.expired.Load():
		return &command.NotSent{Expired: true, Cause: err}
	case !p.connected.Load():
		return &command.NotSent{
			Reason: fault.AgentUnreachable, Unreachable: true, Cause: err,
			Detail: fmt.Sprintf("agent %q cannot be connected to at %s", target.Name, target.BaseURL),
		}
	case !p.written.Load():
		return &command.NotSent{
			Reason: fault.AgentUnreachable, Cause: err,
			Detail: fmt.Sprintf("the connection to agent %q at %s was lost before the command was written", target.Name, target.BaseURL),
		}
	}
	return err
}

// answer reads what an agent answered. A status that is not 200 says that the agent, or something before it, did not take the command.
func answer(status int, raw []byte, target command.Target, cmd *agentv1.Command) (*agentv1.CommandResult, error) {
	if len(raw) > maxAnswerBytes {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswerBytes)
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return refused(cmd, fmt.Sprintf("the agent at %s does not accept the gateway's credential (HTTP %d); nothing was done. A credential is sent to verified URLs only", target.BaseURL, status)), nil
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

func refused(cmd *agentv1.Command, message string) *agentv1.CommandResult {
	return &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_REFUSED, Message: message}
}
