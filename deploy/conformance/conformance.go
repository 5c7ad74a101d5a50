// Package conformance drives the contract of an agent against a running one, in whatever language it is written, and reports each rule.
//
// It is at the other end of both transports: it hears the agent's heartbeats, sends it commands as the operator gateway does, and judges
// the answers. The rules and their numbers are those of agent/README.md. A rule whose conditions it can't bring about is reported as not
// tried, with what it would take. Order decides, and what the agent says; no time does, except that an answer which does not come at all
// is missing after Patience, and that the rules about late starts hold a command up for a few seconds.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// Options say which agent is checked, and what may be done to it. Name and ConnectionString are required.
type Options struct {
	// Name is the agent's.
	Name string
	// ConnectionString of the namespace that the agent uses. Its heartbeats must be heard by this process only.
	ConnectionString string
	// Emulator is the bus, if this process runs it: its faults bring about what a real bus does now and then. Nil: those rules are not tried.
	Emulator *servicebusemulator.Emulator
	// Interval is how often the agent sends heartbeats; default 30 s.
	Interval time.Duration
	// Patience is how long an answer may take before it is missing, and the first heartbeat to come; default 1 min.
	Patience time.Duration
	// Write is the operation of a write that may be carried out many times, as JSON, such as {"restartService":{"service":"Spooler"}}.
	// Empty: one that names what the machine does not have, so that it changes nothing.
	Write string
	// SlowWrite is the operation of a write that takes 6 s or more. Empty: rules about two commands at once are not tried.
	SlowWrite string
	// OwnService is the name of the service that the agent itself runs as. Empty: a restart of it is not tried.
	OwnService string
	// Process is the agent's process; nil: rules about restarts and stopping are not tried. One that is a Freezer is made to stand still too.
	Process Process
	// BaseURL is where the agent serves HTTP, and Token its bearer token; empty: HTTP is not tried, and none.
	BaseURL, Token string
	// Only are the numbers of rules to try, or the beginnings of them, such as "6" or "7.1". Empty: all. 2.1 is always tried, since nothing
	// goes without it.
	Only []string
	// Out receives a line for each rule, as it is tried; nil: none.
	Out io.Writer
}

// Process is what can be done to the agent's process.
type Process interface {
	// Restart ends the agent at once, as a crash does if it can, and starts it again.
	Restart(ctx context.Context) error
	// Stop tells the agent to end, as the operating system does, and returns at once. The channel gets its end: nil if it was orderly. A nil
	// channel says that the process can't be stopped, only restarted.
	Stop(ctx context.Context) (<-chan error, error)
	// Start starts the agent after a Stop.
	Start(ctx context.Context) error
}

// Status of a rule.
type Status string

// The statuses.
const (
	Passed   Status = "passed"
	Failed   Status = "failed"
	NotTried Status = "not tried"
)

// Result is what became of one rule.
type Result struct {
	// Rule is its number: that of the contract, and one within it, such as "6.2"; "H.1" is of HTTP.
	Rule string
	// Title is the rule in words.
	Title  string
	Status Status
	// Seen is what the agent did, or what it would take to try.
	Seen string
}

// Report is all results, in the order in which they were tried.
type Report []Result

// Count is how many have the status.
func (r Report) Count(status Status) (n int) {
	for _, result := range r {
		if result.Status == status {
			n++
		}
	}
	return n
}

// verdict is how a rule was found.
type verdict struct {
	status Status
	seen   string
}

func passed(format string, args ...any) verdict { return verdict{Passed, fmt.Sprintf(format, args...)} }

func failed(format string, args ...any) verdict { return verdict{Failed, fmt.Sprintf(format, args...)} }

func notTried(format string, args ...any) verdict {
	return verdict{NotTried, fmt.Sprintf(format, args...)}
}

// rule is one thing that is tried.
type rule struct {
	number, title string
	try           func(ctx context.Context, r *run) verdict
}

// run is one check of one agent.
type run struct {
	Options
	bus       *bus
	first     *heard // the heartbeat that it began with
	write     operation
	writeID   string // of a write that was carried out, with its answer
	writeDone answer
	holds     [][2]time.Time // from when to when a rule held up the bus or the agent, and with it heartbeats
}

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" || o.ConnectionString == "" {
		return o, errors.New("conformance: Name and ConnectionString are required")
	}
	if o.Interval == 0 {
		o.Interval = 30 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return o, nil
}

// Run waits for the agent's heartbeat and tries every rule. An error says that the check itself could not be made: that the bus can't be
// reached, that no heartbeat came, or that an option is wrong. A rule that is broken is no error; the report has it.
func Run(ctx context.Context, options Options) (Report, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{Options: options}
	if r.bus, err = openBus(ctx, options); err != nil {
		return nil, err
	}
	defer r.bus.close()
	if r.first, err = r.bus.firstHeartbeat(ctx, options.Name, options.Patience+2*options.Interval); err != nil {
		return nil, err
	}
	if r.write, err = r.chooseWrite(); err != nil {
		return nil, err
	}
	var report Report
	for _, tried := range rules() {
		if !options.wants(tried.number) {
			continue
		}
		found := tried.try(ctx, r)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		report = append(report, Result{tried.number, tried.title, found.status, found.seen})
		fmt.Fprintf(options.Out, "%-9s %-4s %s: %s\n", found.status, tried.number, tried.title, found.seen)
		if tried.number == answersRule && found.status == Failed {
			return report, errors.New("conformance: the agent answers no command, so no more is tried")
		}
	}
	return report, nil
}

func (o Options) wants(number string) bool {
	return len(o.Only) == 0 || number == answersRule || slices.ContainsFunc(o.Only, func(prefix string) bool {
		return number == prefix || strings.HasPrefix(number, strings.TrimSuffix(prefix, ".")+".")
	})
}

// answersRule is the one without which nothing else can be tried.
const answersRule = "2.1"

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		heartbeatRules(), sessionRules(), checkRules(), encodingRules(), writeRules(), repeatRules(), settleRules(), lateRules(), httpRules(), stopRules(), laterHeartbeatRules(),
	} {
		all = append(all, some...)
	}
	return all
}

func newID() string { return uuid.NewString() }
