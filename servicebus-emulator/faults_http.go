package servicebusemulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxFaultBody      = 64 << 10 // bytes
	faultsReadTimeout = 10 * time.Second
)

// serveFaults listens for orders to break things; never beyond loopback, whoever asks.
func (e *Emulator) serveFaults() error {
	if e.options.FaultsListen == "" {
		return nil
	}
	if err := checkLoopback(e.options.FaultsListen); err != nil {
		return fmt.Errorf("emulator: FaultsListen %w: whoever can reach it can break everything", err)
	}
	listener, err := net.Listen("tcp", e.options.FaultsListen)
	if err != nil {
		return fmt.Errorf("emulator: FaultsListen: %w", err)
	}
	e.faultsAddr = listener.Addr().String()
	e.faultsServer = &http.Server{
		Handler: e.faultsHandler(), ReadTimeout: faultsReadTimeout,
		ErrorLog: slog.NewLogLogger(e.options.Logger.Handler(), slog.LevelWarn),
	}
	e.running.Go(func() { _ = e.faultsServer.Serve(listener) })
	return nil
}

// FaultsAddr is the address of the HTTP endpoint for faults, or empty.
func (e *Emulator) FaultsAddr() string { return e.faultsAddr }

func (e *Emulator) faultsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faults/{name}", e.postFault)
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { e.answerFaults(w) })
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		e.EndFaults()
		e.answerFaults(w)
	})
	mux.HandleFunc("GET /counts", e.getCounts)
	return http.NewCrossOriginProtection().Handler(mux) // no web page breaks things
}

func (e *Emulator) answerFaults(w http.ResponseWriter) {
	answer(w, http.StatusOK, map[string]any{"faults": e.Faults()})
}

// calls are the faults by name. What they answer, unless nil, is answered.
var calls = map[string]func(*Emulator, []byte) (any, error){
	"drop-connections": call(func(e *Emulator, _ struct{}) (any, error) {
		e.DropConnections()
		return nil, nil
	}),
	"detach-links": call(func(e *Emulator, in struct{ Entity, Condition string }) (any, error) {
		n, err := e.DetachLinks(in.Entity, in.Condition)
		return map[string]int{"links": n}, err
	}),
	"throttle": call(func(e *Emulator, in struct{ Count count }) (any, error) {
		e.Throttle(in.Count.times())
		return nil, nil
	}),
	"refuse-auth": call(func(e *Emulator, in struct{ Count count }) (any, error) {
		e.RefuseAuth(in.Count.times())
		return nil, nil
	}),
	"reject-sends":      call(refusal((*Emulator).RejectSends)),
	"refuse-attaches":   call(refusal((*Emulator).RefuseAttaches)),
	"lose-answers":      call(loss((*Emulator).LoseAnswers)),
	"lose-dispositions": call(loss((*Emulator).LoseDispositions)),
	"delay": call(func(e *Emulator, in struct{ Delay string }) (any, error) {
		d, err := time.ParseDuration(in.Delay)
		if err != nil || d < 0 {
			return nil, &fieldError{"delay", fmt.Sprintf("%q is not a duration such as 250ms, or 0s to end it", in.Delay)}
		}
		e.Delay(d)
		return nil, nil
	}),
	"pause-subscription": call(func(e *Emulator, in struct {
		Topic, Subscription string
		Paused              *bool
	},
	) (any, error) {
		return nil, e.PauseSubscription(in.Topic, in.Subscription, in.Paused == nil || *in.Paused)
	}),
	"expire-locks": call(func(e *Emulator, in struct{ Topic, Subscription string }) (any, error) {
		return nil, e.ExpireLocks(in.Topic, in.Subscription)
	}),
}

type refusalBody struct {
	Entity, Condition string
	Count             count
}

func refusal(do func(*Emulator, string, string, int) error) func(*Emulator, refusalBody) (any, error) {
	return func(e *Emulator, in refusalBody) (any, error) {
		return nil, do(e, in.Entity, in.Condition, in.Count.times())
	}
}

type lossBody struct {
	Entity string
	Count  count
}

func loss(do func(*Emulator, string, int) error) func(*Emulator, lossBody) (any, error) {
	return func(e *Emulator, in lossBody) (any, error) { return nil, do(e, in.Entity, in.Count.times()) }
}

// count is how often a fault strikes; left out, it is Always.
type count struct{ n *int }

func (c count) times() int {
	if c.n == nil {
		return Always
	}
	return *c.n
}

// UnmarshalJSON reads a number of -1 (Always) or more.
func (c *count) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &c.n); err != nil || c.times() < Always {
		return &fieldError{"count", fmt.Sprintf("%s is not a number of times, or %d for always", data, Always)}
	}
	return nil
}

// call reads a body as what a fault takes.
func call[In any](do func(*Emulator, In) (any, error)) func(*Emulator, []byte) (any, error) {
	return func(e *Emulator, body []byte) (any, error) {
		var in In
		if err := decodeStrictly(body, &in); err != nil {
			return nil, err
		}
		return do(e, in)
	}
}

var unknownField = regexp.MustCompile(`unknown field "(.*)"$`)

func decodeStrictly(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return &fieldError{strings.ToLower(wrongType.Field), fmt.Sprintf("it is a %s, and should be a %s", wrongType.Value, wrongType.Type)}
	}
	if err != nil {
		if found := unknownField.FindStringSubmatch(err.Error()); found != nil {
			return &fieldError{found[1], "this fault takes no such field"}
		}
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the end of the object")
	}
	return nil
}

func (e *Emulator) postFault(w http.ResponseWriter, r *http.Request) {
	do := calls[r.PathValue("name")]
	if do == nil {
		known := strings.Join(slices.Sorted(maps.Keys(calls)), ", ")
		answerError(w, http.StatusNotFound, fmt.Errorf("there is no fault %q; there are: %s", r.PathValue("name"), known))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFaultBody))
	if err != nil {
		answerError(w, http.StatusBadRequest, err)
		return
	}
	result, err := do(e, body)
	switch {
	case err != nil:
		answerError(w, http.StatusBadRequest, err)
	case result != nil:
		answer(w, http.StatusOK, result)
	default:
		e.answerFaults(w)
	}
}

// getCounts counts the messages of the queues, subscriptions and dead-letter queues that it is asked for.
func (e *Emulator) getCounts(w http.ResponseWriter, r *http.Request) {
	entities := r.URL.Query()["entity"]
	if len(entities) == 0 {
		answerError(w, http.StatusBadRequest, &fieldError{"entity", "name one or more, as in ?entity=t/Subscriptions/s&entity=q"})
		return
	}
	counts := map[string]Counts{}
	for _, entity := range entities {
		q := e.broker.Queue(entity)
		if q == nil {
			problem := fmt.Sprintf("there is no queue or subscription %q", entity)
			answerError(w, http.StatusBadRequest, &fieldError{"entity", problem})
			return
		}
		counts[entity] = q.Counts()
	}
	answer(w, http.StatusOK, counts)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// answerError names the field that is wrong, if it is one.
func answerError(w http.ResponseWriter, status int, err error) {
	body := map[string]string{"error": err.Error()}
	if wrong := (*fieldError)(nil); errors.As(err, &wrong) {
		body = map[string]string{"field": wrong.field, "error": wrong.problem}
	}
	answer(w, status, body)
}
