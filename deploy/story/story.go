package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The agents the story is about. The local system of the demo starts them, accepted by nobody.
const (
	Bus     = "BM-AMS-01" // on Service Bus
	Both    = "BM-UTR-02" // on Service Bus, and serving HTTP
	HTTP    = "BM-QA-03"  // serving HTTP only
	Pending = "BM-NEW-04" // on Service Bus
	Spare   = "BM-NEW-05" // on Service Bus
)

// Fleet is what the story does to the simulated agents themselves, as the world would.
type Fleet interface {
	// Silence stops an agent's heartbeats; it goes on taking commands.
	Silence(agent string) error
	// Wake lets its heartbeats start again.
	Wake(agent string) error
	// Mute makes an agent take commands and keep their answers to itself.
	Mute(agent string) error
	// Answer sends the answers that were kept, and ends Mute.
	Answer(agent string) error
	// HTTPCommands counts the commands an agent received over HTTP so far.
	HTTPCommands(agent string) (int, error)
	// HTTPBaseURL is where an agent serves HTTP.
	HTTPBaseURL(agent string) (string, error)
}

// Ingest is the heartbeat service, as whoever runs it stops and starts it.
type Ingest interface {
	Stop(context.Context) error
	Start(context.Context) error
}

// World is the running system the story is told against.
type World struct {
	Client Client
	Fleet  Fleet
	Ingest Ingest
	// LateReply tells the gateway's log line of a late reply to a command; empty while there is none.
	LateReply func(commandID string) (string, error)
	// Wait bounds each wait for something to become true.
	Wait time.Duration
}

// Result counts the steps.
type Result struct{ Passed, Failed int }

// Tell runs every step in order, printing each with its answer. A failed step does not end the story.
func Tell(ctx context.Context, world World, out io.Writer) Result {
	teller := &teller{World: world, out: out}
	for _, step := range append(teller.steps(), teller.availability()...) {
		if ctx.Err() != nil {
			break
		}
		_, _ = fmt.Fprintf(out, "\n%s\n", step.title)
		if err := step.run(ctx); err != nil {
			teller.result.Failed++
			_, _ = fmt.Fprintf(out, "  FAILED: %v\n", err)
			continue
		}
		teller.result.Passed++
	}
	return teller.result
}

type step struct {
	title string
	run   func(context.Context) error
}

type teller struct {
	World
	out        io.Writer
	result     Result
	unanswered string // the command whose answer the agent kept to itself
}

// want is what a step expects of an answer: its status, and texts that its body must hold.
type want struct {
	status int
	texts  []string
}

func answers(status int, texts ...string) want { return want{status, texts} }

// call makes one call, prints it with its answer, and checks it.
func (t *teller) call(ctx context.Context, method, path string, body any, etag string, want want) (Answer, error) {
	answer, err := t.Client.Do(ctx, method, path, body, etag)
	if err != nil {
		return answer, err
	}
	_, _ = fmt.Fprintf(t.out, "  %s %s → %d %s\n", method, path, answer.Status, shorten(answer.Raw))
	if answer.Status != want.status {
		return answer, fmt.Errorf("answered %d, expected %d", answer.Status, want.status)
	}
	for _, text := range want.texts {
		if !strings.Contains(answer.Raw, text) {
			return answer, fmt.Errorf("the answer lacks %q", text)
		}
	}
	if want.status >= 400 && answer.Header.Get("Content-Type") != "application/problem+json" {
		return answer, fmt.Errorf("an error must be application/problem+json, is %q", answer.Header.Get("Content-Type"))
	}
	return answer, nil
}

// etag reads an agent's present etag.
func (t *teller) etag(ctx context.Context, agent string) (string, error) {
	answer, err := t.Client.Do(ctx, http.MethodGet, at("config", "agents", agent), nil, "")
	if err != nil {
		return "", err
	}
	if answer.Status != http.StatusOK {
		return "", fmt.Errorf("reading %s answered %d: %s", agent, answer.Status, answer.Raw)
	}
	return answer.Text("etag"), nil
}

// decide posts a decision about an agent with its present etag.
func (t *teller) decide(ctx context.Context, agent, verb string, body any, want want) (Answer, error) {
	etag, err := t.etag(ctx, agent)
	if err != nil {
		return Answer{}, err
	}
	return t.call(ctx, http.MethodPost, at("config", "agents", agent)+":"+verb, body, etag, want)
}

// until polls until done says so, or the wait is over.
func (t *teller) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, t.Wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: not within %s", what, t.Wait), last)
		case <-tick.C:
		}
	}
}

func shorten(text string) string {
	const most = 260
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
