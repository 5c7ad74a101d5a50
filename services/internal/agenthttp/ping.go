package agenthttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

const (
	// maxPongBytes bounds what is read of a ping's answer.
	maxPongBytes = 64 << 10
	// maxDetail is the length of a pong's detail, in bytes: what answers there may say anything.
	maxDetail = 512
)

// Pong is what a ping showed.
type Pong struct {
	Succeeded bool
	// Inconclusive says that it shows nothing about the agent: it could not be asked, or was not waited for, for a reason of ours.
	Inconclusive bool
	// AnsweredAs is the name that was answered, if one was.
	AnsweredAs string
	// Detail is for people.
	Detail string
}

// Ping asks whoever is at the base URL for its name, until ctx ends. It costs no more than 64 KiB of an answer, and its headers. The
// client is one of NewClient, which follows no redirect. Token is sent unless it is empty, as it must be for
// a URL that is not verified.
func Ping(ctx context.Context, client *http.Client, token config.Secret, name, baseURL string) Pong {
	pong := ping(ctx, client, token, name, baseURL)
	pong.Detail = strings.ToValidUTF8(pong.Detail[:min(len(pong.Detail), maxDetail)], "")
	return pong
}

func ping(ctx context.Context, client *http.Client, token config.Secret, name, baseURL string) Pong {
	base, err := ParseBaseURL(baseURL)
	if err != nil {
		return Pong{Inconclusive: true, Detail: "the base URL " + err.Error()}
	}
	var way progress
	request, err := newPing(way.follow(ctx), base, token)
	if err != nil {
		return Pong{Inconclusive: true, Detail: err.Error()}
	}
	response, err := client.Do(request)
	if err != nil {
		return way.explain(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Pong{Detail: refusal(response.StatusCode, token != "")}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxPongBytes+1))
	if err != nil {
		return unread(ctx, err)
	}
	return read(raw, name)
}

func newPing(ctx context.Context, base *url.URL, token config.Secret) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+"/agent/v1/ping", nil)
	if err == nil && token != "" {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	return request, err
}

// refusal explains a status other than 200.
func refusal(status int, withToken bool) string {
	text := fmt.Sprintf("answers HTTP %d instead of 200", status)
	switch {
	case status >= 300 && status < 400:
		return text + ": it redirects, and redirects are not followed"
	case status != http.StatusUnauthorized && status != http.StatusForbidden:
		return text
	case withToken:
		return text + ": it does not accept our credential"
	}
	return text + ": it does not accept our credential; no token was sent"
}

// read reads the body of an answer.
func read(raw []byte, name string) Pong {
	if len(raw) > maxPongBytes {
		return Pong{Detail: fmt.Sprintf("answers with more than %d bytes", maxPongBytes)}
	}
	pong := &agentv1.PingResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, pong); err != nil {
		return Pong{Detail: "the answer is no PingResponse: " + err.Error()}
	}
	if !spelling.Same(pong.GetName(), name) {
		return Pong{AnsweredAs: pong.GetName(), Detail: fmt.Sprintf("answers as %.100q, not as %q", pong.GetName(), name)}
	}
	return Pong{Succeeded: true, AnsweredAs: pong.GetName(), Detail: fmt.Sprintf("answers as %q", pong.GetName())}
}
