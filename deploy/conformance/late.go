package conformance

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// lateRules are of commands that could only be started late. They hold up the bus, or the agent's process.
func lateRules() []rule {
	return []rule{
		{"4.8", "a command that came more than 0.5 s after it was asked for is given back, and none is started after 3 s", startsNothingHeld},
		{"4.9", "a command that waited while the process stood still is not started", startsNothingAfterStanding},
		{"4.10", "nothing is started before the lock is renewed", renewsBeforeStart},
	}
}

// standing is for how long what must not start is held: longer than the 3 s that a command from the bus has. lateTTL is how long its message
// lives, so that the broker does not give it out again.
const (
	standing = 4 * time.Second
	lateTTL  = 2 * time.Second
)

// Freezer is a Process that can be made to stand still, as an administrator or a debugger does.
type Freezer interface {
	Process
	// Freeze returns once the process stands still. errors.ErrUnsupported: this system can't do that.
	Freeze(ctx context.Context) error
	// Thaw lets it go on.
	Thaw() error
}

// lateOperation is a write where there is one, since the journal tells of those.
func (r *run) lateOperation() operation {
	if r.write.field != "" {
		return r.write
	}
	return r.read()
}

// startLate sends a command whose message lives for that long.
func (r *run) startLate(ctx context.Context, command fields, ttl time.Duration) (*sent, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	return r.bus.send(ctx, message{id: command.id(), session: r.agentName(), contentType: mediaJSON, body: body, ttl: ttl})
}

// notStarted says what is wrong if a command that came too late was carried out, or counts as begun. A read that is answered shows that the
// agent has seen whatever came before.
func (r *run) notStarted(ctx context.Context, command fields, pending *sent) (problem string) {
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) {
		return "after it, a read was answered " + words(a, err)
	}
	if a, err := pending.await(ctx, quiet); err == nil && carriedOut(a.CommandResult) {
		return "it was carried out: " + words(a, nil)
	}
	if record, err := r.record(ctx, command.id()); err == nil && record.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
		return "its record is " + strings.TrimPrefix(record.GetState().String(), "COMMAND_STATE_")
	}
	return ""
}

// heldUp notes that heartbeats may have been held up too, until what it gives is called.
func (r *run) heldUp() (over func()) {
	from := time.Now()
	return func() { r.holds = append(r.holds, [2]time.Time{from, time.Now()}) }
}

// handOut has the broker hand a command out once a fault is on, and gives it; the fault stays on.
func (r *run) handOut(ctx context.Context, ttl time.Duration, fault func()) (command fields, pending *sent, err error) {
	const tries = 5
	for range tries {
		before, err := r.Emulator.Counts(commandsTopic, commandsSubscription)
		if err != nil {
			return nil, nil, err
		}
		if err := r.Emulator.PauseSubscription(commandsTopic, commandsSubscription, true); err != nil {
			return nil, nil, err
		}
		command = r.command(r.lateOperation())
		over := time.Now().Add(ttl - 50*time.Millisecond) // before the broker finds that it is
		if pending, err = r.startLate(ctx, command, ttl); err != nil {
			r.Emulator.EndFaults()
			return nil, nil, err
		}
		fault()
		if err := r.Emulator.PauseSubscription(commandsTopic, commandsSubscription, false); err != nil {
			pending.done()
			return nil, nil, err
		}
		for time.Now().Before(over) && ctx.Err() == nil {
			if now, err := r.Emulator.Counts(commandsTopic, commandsSubscription); err == nil && (now.Locked > before.Locked || now.Active == before.Active) {
				return command, pending, nil
			}
			pause(ctx, time.Millisecond)
		}
		r.Emulator.EndFaults() // the time to live was over, or nothing had asked for it
		pending.done()
	}
	return nil, nil, fmt.Errorf("the agent did not ask for a command within %s, %d times", ttl, tries)
}

// heldOut holds a command for that long with a fault, once the broker has handed it out, and says what is wrong if it is started after that.
func (r *run) heldOut(ctx context.Context, ttl, held time.Duration, fault func()) (problem string, err error) {
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) { // so that the next one is asked for now
		return "", fmt.Errorf("a read was answered %s", words(a, err))
	}
	defer r.heldUp()()
	defer r.Emulator.EndFaults()
	command, pending, err := r.handOut(ctx, ttl, fault)
	if err != nil {
		return "", err
	}
	defer pending.done()
	pause(ctx, held)
	r.Emulator.EndFaults()
	return r.notStarted(ctx, command, pending), nil
}

func startsNothingHeld(ctx context.Context, r *run) verdict {
	if r.Emulator == nil {
		return notTried("it needs the emulator, which can hold a message on its way")
	}
	for _, c := range []struct{ ttl, held time.Duration }{
		{time.Second, 1500 * time.Millisecond}, // less than 3 s: only the broker knows that it is over
		{lateTTL, standing},
	} {
		problem, err := r.heldOut(ctx, c.ttl, c.held, func() { r.Emulator.Delay(time.Minute) })
		switch {
		case err != nil:
			return notTried("%v", err)
		case problem != "":
			return failed("its message lived for %s, and came %s after the broker had handed it out; %s", c.ttl, c.held, problem)
		}
	}
	return passed("nothing was started")
}

func renewsBeforeStart(ctx context.Context, r *run) verdict {
	if r.Emulator == nil {
		return notTried("it needs the emulator, which can refuse to renew a lock")
	}
	problem, err := r.heldOut(ctx, lateTTL, standing, func() { r.Emulator.Throttle(servicebusemulator.Always) })
	switch {
	case err != nil:
		return notTried("%v", err)
	case problem != "":
		return failed("for %s no lock could be renewed; %s", standing, problem)
	}
	return passed("nothing was started while locks could not be renewed")
}

func startsNothingAfterStanding(ctx context.Context, r *run) verdict {
	process, can := r.Process.(Freezer)
	if !can {
		return notTried("it needs -run, so that the agent's process can be made to stand still")
	}
	defer r.heldUp()()
	for _, budget := range []time.Duration{lateTTL, 30 * time.Second} {
		command := r.command(r.lateOperation()).with("budget", fmt.Sprintf("%.0fs", budget.Seconds()))
		if found := r.standsStill(ctx, process, command); found.status != Passed {
			return found
		}
	}
	if r.BaseURL == "" {
		return passed("over the bus; over HTTP it needs -base-url")
	}
	if found := r.standsStillOverHTTP(ctx, process); found.status != Passed {
		return found
	}
	return passed("over the bus and over HTTP")
}

// frozen has the process stand still while it does something. An error says that it could not.
func frozen(ctx context.Context, process Freezer, meanwhile func()) error {
	err := process.Freeze(ctx)
	if err == nil {
		meanwhile()
	}
	return errors.Join(err, process.Thaw())
}

func (r *run) standsStill(ctx context.Context, process Freezer, command fields) verdict {
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) {
		return notTried("a read was answered %s", words(a, err))
	}
	var pending *sent
	var sending, silent error
	var early answer
	err := frozen(ctx, process, func() {
		if pending, sending = r.startLate(ctx, command, lateTTL); sending == nil {
			early, silent = pending.await(ctx, standing)
		}
	})
	if err = errors.Join(err, sending); err != nil {
		if pending != nil {
			pending.done()
		}
		return notTried("%v", err)
	}
	defer pending.done()
	if silent == nil {
		return notTried("it was answered %s while the process stood still: -run must start the agent itself, and not a program that starts it", words(early, nil))
	}
	if problem := r.notStarted(ctx, command, pending); problem != "" {
		return failed("over the bus, the process stood still for %s with a command waiting that had a budget of %s; %s", standing, command["budget"], problem)
	}
	return passed("over the bus")
}

// standsStillOverHTTP has the process stand still once it has asked for the body of a command, so that its time counts from before that.
func (r *run) standsStillOverHTTP(ctx context.Context, process Freezer) verdict {
	command := r.command(r.lateOperation()).with("budget", fmt.Sprintf("%.0fs", lateTTL.Seconds()))
	body, err := json.Marshal(command)
	if err != nil {
		return notTried("%v", err)
	}
	conn, err := r.postHead(ctx, len(body))
	if err != nil {
		return notTried("over HTTP: %v", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(r.Patience + standing))
	in := bufio.NewReader(conn)
	asked, err := http.ReadResponse(in, nil)
	if err != nil {
		return failed("over HTTP, a command with Expect: 100-continue was not answered: %v", err)
	}
	defer asked.Body.Close()
	if asked.StatusCode != http.StatusContinue {
		return failed("over HTTP, a command with Expect: 100-continue was answered %s, not 100", asked.Status)
	}
	var sending error
	if err := frozen(ctx, process, func() {
		_, sending = conn.Write(body)
		pause(ctx, standing)
	}); err != nil {
		return notTried("%v", err)
	}
	a := answer{CommandResult: &agentv1.CommandResult{}}
	got, err := http.ReadResponse(in, nil)
	if err == nil {
		defer got.Body.Close()
	}
	if err = errors.Join(sending, err); err == nil {
		var content []byte
		if content, err = io.ReadAll(io.LimitReader(got.Body, 4<<20)); err == nil {
			err = exchange{got.StatusCode, got.Header.Get("Content-Type"), content}.into(a.CommandResult)
		}
	}
	if err == nil && carriedOut(a.CommandResult) {
		return failed("over HTTP, the process stood still for %s once it had asked for the body, and a command with %s was carried out then: %s",
			standing, command["budget"], words(a, nil))
	}
	if record, err := r.record(ctx, command.id()); err == nil && record.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
		return failed("over HTTP, the process stood still for %s; the record of a command with %s is %s", standing, command["budget"], record.GetState())
	}
	return passed("over HTTP")
}

// postHead opens a connection and sends the head of a command on it, as the gateway does.
func (r *run) postHead(ctx context.Context, length int) (net.Conn, error) {
	base, err := url.Parse(strings.TrimSuffix(r.BaseURL, "/") + "/agent/v1/commands")
	if err != nil {
		return nil, err
	}
	port := base.Port()
	if port == "" {
		port = base.Scheme // its name is one of the service too
	}
	address := net.JoinHostPort(base.Hostname(), port)
	var conn net.Conn
	if base.Scheme == "https" {
		conn, err = (&tls.Dialer{}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	credentials := ""
	if r.Token != "" {
		credentials = "Authorization: Bearer " + r.Token + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%sExpect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		base.RequestURI(), base.Host, mediaJSON, credentials, length); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
