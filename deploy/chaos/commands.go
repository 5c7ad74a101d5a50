package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	callers = 12
	// callPause is between the calls of one caller, up to twice that.
	callPause, refusedPause = 100 * time.Millisecond, time.Second
	// Of a hundred jobs so many take longer than anybody waits; of a hundred unknown outcomes so many are asked for again.
	slowJobs, repeated = 3, 50
	slowSuffix         = "-slow"
)

// answered is what the gateway said of a job.
type answered int

const (
	saidDone answered = iota
	saidNot           // nothing was done
	saidUnknown
)

// job is one command, under one key, asked for once or more.
type job struct {
	key, name, agent string
	asked            []time.Time // each time it was
	answers          []answered
	reason           string // of the last answer
}

// latest is by when it must have begun, if it began: each asking has the write budget, and nothing more.
func (j *job) latest() time.Time { return j.asked[len(j.asked)-1].Add(writeBudget) }

func (j *job) said(what answered) bool {
	for _, answer := range j.answers {
		if answer == what {
			return true
		}
	}
	return false
}

// commands asks for jobs from many callers at once, and remembers what was said.
type commands struct {
	rest   [2]string
	agents []string
	probes []string // an agent of each transport
	client *http.Client
	seed   uint64

	mu   sync.Mutex
	jobs []*job
}

func newCommands(rest [2]string, bus, direct []string, seed uint64) *commands {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = callers
	probes := []string{bus[0]}
	if len(direct) > 0 {
		probes = append(probes, direct[0])
	}
	return &commands{rest: rest, agents: slices.Concat(bus, direct), probes: probes, seed: seed, client: &http.Client{Transport: transport, Timeout: 3 * writeBudget}}
}

func (c *commands) run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { c.call(ctx, i, rand.New(rand.NewPCG(c.seed, uint64(100+i)))) })
	}
	group.Wait()
}

// call asks for one job after the other. A call that was begun is waited for.
func (c *commands) call(ctx context.Context, caller int, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		one := &job{key: uuid.NewString(), name: fmt.Sprintf("%s%d-%d", jobPrefix, caller, n), agent: c.agents[random.IntN(len(c.agents))]}
		if random.IntN(100) < slowJobs {
			one.name += slowSuffix
		}
		c.mu.Lock()
		c.jobs = append(c.jobs, one)
		c.mu.Unlock()
		c.ask(one, random.IntN(2))
		if one.answers[len(one.answers)-1] == saidUnknown && random.IntN(100) < repeated {
			c.ask(one, random.IntN(2))
		}
		wait := callPause/2 + time.Duration(random.Int64N(int64(callPause)))
		if one.answers[len(one.answers)-1] == saidNot { // as Retry-After asks, and sooner
			wait += refusedPause
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

func (c *commands) ask(one *job, gateway int) {
	asked := time.Now()
	said, reason := c.post(one, gateway)
	c.mu.Lock()
	defer c.mu.Unlock()
	one.asked, one.answers, one.reason = append(one.asked, asked), append(one.answers, said), reason
}

func (c *commands) post(one *job, gateway int) (answered, string) {
	request, err := http.NewRequest(http.MethodPost, c.rest[gateway]+"/api/agents/"+one.agent+"/services/"+one.name+"/restart", nil)
	if err != nil {
		return saidNot, err.Error()
	}
	request.Header.Set("Idempotency-Key", one.key)
	response, err := c.client.Do(request)
	if err != nil { // it may have got there
		return saidUnknown, err.Error()
	}
	defer response.Body.Close()
	var body struct{ Reason string }
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return saidUnknown, err.Error()
	}
	if response.StatusCode == http.StatusOK {
		return saidDone, ""
	}
	if json.Unmarshal(raw, &body) != nil || body.Reason == "" {
		return saidUnknown, string(raw)
	}
	switch body.Reason {
	case "OUTCOME_UNKNOWN", "AGENT_FAILED", "INTERNAL": // a failure may have changed something
		return saidUnknown, body.Reason
	}
	return saidNot, body.Reason
}

// record is what an agent's journal knows of a command.
type record struct {
	State string `json:"state"`
}

type recordAnswer struct {
	Record record `json:"record"`
}

// lookUp asks an agent what became of a job.
func (c *commands) lookUp(ctx context.Context, one *job) (record, error) {
	var found recordAnswer
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.rest[0]+"/api/agents/"+one.agent+"/commands/"+one.key, nil)
	if err != nil {
		return found.Record, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return found.Record, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return found.Record, err
	}
	if response.StatusCode != http.StatusOK {
		return found.Record, fmt.Errorf("%s answered %d %s", request.URL.Path, response.StatusCode, bytes.TrimSpace(raw))
	}
	err = json.Unmarshal(raw, &found)
	return found.Record, err
}

// work reports whether commands go through each gateway on each transport.
func (c *commands) work(ctx context.Context) bool {
	for _, gateway := range c.rest {
		for _, agent := range c.probes {
			if !c.answers(ctx, gateway+"/api/agents/"+agent+"/services") {
				return false
			}
		}
	}
	return true
}

func (c *commands) answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := c.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}
