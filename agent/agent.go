package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Config of an agent. Name, Host and at least one of Bus and HTTP are required. Heartbeats go over Bus, or else to the Cloud; an agent
// that has neither sends none.
type Config struct {
	// Name is the agent's identity: 1 to 128 characters, none of them control characters. It is compared
	// case-insensitively, and reported in this spelling.
	Name string
	// Hostname of the machine; at most 255 characters; default what the operating system says.
	Hostname string
	// Version of the agent's software, free text of at most 64 characters.
	Version string
	// Host is the machine.
	Host host.Host
	// Bus carries heartbeats and commands over Service Bus; nil: neither. Agents of one process may share one. The
	// caller closes it, after Run has returned.
	Bus *Bus
	// CommandSubscription is this agent's own subscription of the commands topic, without sessions. Empty: the agent
	// takes the session of its name in the subscription that all agents share.
	CommandSubscription string
	// HTTP serves commands over HTTP; nil: not.
	HTTP *HTTPConfig
	// Cloud is the control servers; nil: none. Without Bus the agent is a direct one: it sends its heartbeats to them, to one at a time,
	// in the order of the list that they give it. With Bus it only asks for that list, and keeps it to fall back to. Agents of one
	// process may share it. The caller closes it, after Run has returned.
	Cloud *Cloud
	// StateDir is a folder, which must exist, for what an agent with a Cloud must know after a restart: its token, by which the control
	// plane knows it, and its list. It is for one agent alone. Empty: they are in memory only, so that a direct agent is another machine
	// after a restart, and is refused until an operator resets the token of its name.
	StateDir string
	// JournalPath is the file that remembers commands beyond a restart, beside which a lock and, for moments, a copy are
	// kept (.lock, .new). Its folder must exist; one process at a time has it, and one agent. Writes are on disk before
	// they are started; while they can't be, they are refused. Empty: writes are remembered for an hour, and only by this
	// process, so that a command which comes again after a restart may run a second time. That can't happen over the
	// bus, but where a caller repeats a command by its id.
	JournalPath string
	// JournalKept is for how long a file remembers a write: 1 h, which is the longest budget, to 30 days; default 24 h.
	// Beyond 100,000 writes within that time, more are refused.
	JournalKept time.Duration
	// Heartbeat says how often; the zero value is good.
	Heartbeat HeartbeatConfig
	// Failover says how control servers are called; the zero value is good.
	Failover FailoverConfig
	// Commands bounds what is run; the zero value is good.
	Commands CommandConfig
	// Logger; default none.
	Logger *slog.Logger
	// Faults make the agent misbehave, for demonstrations and tests; nil: none.
	Faults *Faults
}

// HeartbeatConfig says how often heartbeats are sent.
type HeartbeatConfig struct {
	// Interval between heartbeats, give or take a tenth, which is drawn for each; 100 ms to 1 h; default 30 s. The
	// control plane takes an agent for silent after 90 s unless it is configured otherwise.
	Interval time.Duration
	// BindingsInterval is how often the IIS bindings are repeated though they did not change; at least Interval;
	// default 10 min. They also go with the first heartbeat and whenever they changed.
	BindingsInterval time.Duration
}

// CommandConfig bounds what commands may take.
type CommandConfig struct {
	// ReadTimeout is how long a read may run; default 30 s.
	ReadTimeout time.Duration
	// WriteTimeout is how long a write may run, and so keep others out; default 5 min.
	WriteTimeout time.Duration
	// DrainGrace is how long running commands get to finish when the agent stops; default 20 s.
	DrainGrace time.Duration
}

func (c Config) withDefaults() Config {
	standard(&c.Heartbeat.Interval, 30*time.Second)
	standard(&c.Heartbeat.BindingsInterval, max(10*time.Minute, c.Heartbeat.Interval))
	c.Failover = c.Failover.withDefaults()
	standard(&c.JournalKept, 24*time.Hour)
	standard(&c.Commands.ReadTimeout, 30*time.Second)
	standard(&c.Commands.WriteTimeout, 5*time.Minute)
	standard(&c.Commands.DrainGrace, 20*time.Second)
	if c.Hostname == "" {
		c.Hostname, _ = os.Hostname() // shown only; an agent without one is an agent too
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("agent", c.Name)
	if c.Faults == nil {
		c.Faults = &Faults{}
	}
	return c
}

func standard(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// validate says every problem, each with its field.
func (c Config) validate() error {
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("agent config: %s: %s", field, fmt.Sprintf(format, args...)))
	}
	if problem := nameProblem(c.Name); problem != "" {
		bad("Name", "%s", problem)
	}
	if len([]rune(c.Hostname)) > 255 {
		bad("Hostname", "is longer than 255 characters")
	}
	if len([]rune(c.Version)) > 64 {
		bad("Version", "is longer than 64 characters")
	}
	if c.Host == nil {
		bad("Host", "is required: it is the machine that commands are run on")
	}
	if c.Bus == nil && c.HTTP == nil {
		bad("Bus, HTTP", "at least one is required, or no command can reach the agent")
	}
	if c.CommandSubscription != "" && c.Bus == nil {
		bad("CommandSubscription", "needs Bus")
	}
	if c.StateDir != "" && c.Cloud == nil {
		bad("StateDir", "needs Cloud: what other agents must know is in the journal")
	}
	if c.Cloud != nil {
		problems = append(problems, c.Failover.validate(c.Cloud.cfg.Registration, c.Heartbeat.Interval))
	}
	if d := c.Heartbeat.Interval; d < 100*time.Millisecond || d > time.Hour {
		bad("Heartbeat.Interval", "%s is not within 100ms to 1h", d)
	}
	if d := c.Heartbeat.BindingsInterval; d < c.Heartbeat.Interval {
		bad("Heartbeat.BindingsInterval", "%s is below Heartbeat.Interval", d)
	}
	if d := c.JournalKept; d < maxBudget || d > 30*24*time.Hour {
		bad("JournalKept", "%s is not within 1h to 720h", d)
	}
	for field, d := range map[string]time.Duration{
		"Commands.ReadTimeout": c.Commands.ReadTimeout, "Commands.WriteTimeout": c.Commands.WriteTimeout,
		"Commands.DrainGrace": c.Commands.DrainGrace,
	} {
		if d < 0 {
			bad(field, "%s is below 0", d)
		}
	}
	if c.HTTP != nil {
		problems = append(problems, c.HTTP.validate()...)
	}
	return errors.Join(problems...)
}

// Agent is one agent.
type Agent struct {
	cfg        Config
	bootID     string
	executor   *executor
	counters   counters
	listener   net.Listener           // nil without HTTP
	membership *membership            // nil without Cloud
	works      atomic.Pointer[string] // name of the control server worked with
	ready      chan struct{}          // closed once commands are taken on every transport configured
	wrapInbox  func(inbox) inbox      // of tests, which stop the process at a certain call; nil: as it is
}

// New makes an agent, opens its state and its journal, and listens if it serves HTTP; Run must follow, once. Errors are those
// of the configuration, all of them, naming the fields; that the HTTP address can't be listened on; that the token is damaged or
// can't be kept; and that the journal is another process's, can't be read, or is damaged, with the file and the byte.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if problem := newNameProblem(cfg.Name); problem != "" {
		cfg.Logger.Warn("the registry takes no new agent of this name: its heartbeats stay without effect, unless it was known before names had to keep this rule. Rename the agent",
			"problem", problem)
	}
	boot := make([]byte, 16)
	if _, err := rand.Read(boot); err != nil {
		return nil, fmt.Errorf("agent: no random boot id: %w", err)
	}
	a := &Agent{cfg: cfg, bootID: hex.EncodeToString(boot), ready: make(chan struct{})}
	if err := a.open(); err != nil {
		if a.listener != nil {
			a.listener.Close()
		}
		return nil, errors.Join(err, a.membership.close())
	}
	return a, nil
}

// open what the agent needs from its machine.
func (a *Agent) open() (err error) {
	if a.cfg.HTTP != nil {
		if a.listener, err = a.cfg.HTTP.listen(); err != nil {
			return err
		}
	}
	if a.cfg.Cloud != nil {
		if a.membership, err = openMembership(a.cfg.StateDir, a.direct()); err != nil {
			return err
		}
		if err = a.checkEnrolment(); err != nil {
			return err
		}
	}
	j, err := openJournal(a.cfg)
	if err != nil {
		return err
	}
	a.executor = newExecutor(a.cfg, j, &a.counters)
	return nil
}

func openJournal(cfg Config) (journal, error) {
	if cfg.JournalPath == "" {
		return newMemory(), nil
	}
	return openDurable(cfg, openFile)
}

// Run is the agent's life, until the context ends. It then refuses new commands, gives running ones the grace to
// finish, and returns nil. An error means that HTTP broke down. A bus or control servers that can't be reached are no error: they
// are tried until they can.
func (a *Agent) Run(ctx context.Context) error {
	// The transports outlive ctx by the time that draining takes, so that it is they who refuse.
	transports, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	var broken error
	taking := make(chan struct{})
	if a.listener != nil {
		running.Go(func() {
			broken = a.serveHTTP(transports)
			end(broken)
		})
	}
	if a.cfg.Cloud != nil {
		running.Go(func() { a.follow(ctx) })
	}
	if a.cfg.Bus != nil {
		running.Go(func() { a.heartbeats(ctx) })
		running.Go(func() { a.takeFromBus(transports, taking) })
	} else {
		close(taking)
	}
	select {
	case <-taking:
		close(a.ready)
		<-ctx.Done()
	case <-ctx.Done():
	}
	a.cfg.Logger.Info("stopping: new commands are refused, running ones are finished", "grace", a.cfg.Commands.DrainGrace)
	a.executor.drain(a.cfg.Commands.DrainGrace)
	stop()
	running.Wait()
	if err := a.executor.journal.close(); err != nil {
		a.cfg.Logger.Warn("the journal could not be closed", "error", err)
	}
	if err := a.membership.close(); err != nil {
		a.cfg.Logger.Warn("the state could not be closed", "error", err)
	}
	return broken
}

// Ready is closed once the agent runs and takes commands on every transport that it is configured with.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// HTTPAddr is the address that the agent serves HTTP on, such as 127.0.0.1:7500; empty without HTTP.
func (a *Agent) HTTPAddr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// HTTPBaseURL is the base URL that heartbeats propose; empty without HTTP.
func (a *Agent) HTTPBaseURL() string {
	if a.listener == nil {
		return ""
	}
	return a.cfg.HTTP.baseURL(a.HTTPAddr(), a.cfg.Hostname)
}

// BootID is this start's random id.
func (a *Agent) BootID() string { return a.bootID }

// ControlServer is the name of the control server that a direct agent works with; empty: none, it looks for one.
func (a *Agent) ControlServer() string {
	if name := a.works.Load(); name != nil {
		return *name
	}
	return ""
}

// Stats are the agent's counts since it was made.
func (a *Agent) Stats() Stats { return a.counters.stats() }

func (a *Agent) ping() *agentv1.PingResponse {
	return &agentv1.PingResponse{Name: a.cfg.Name, BootId: a.bootID, AgentVersion: a.cfg.Version}
}
