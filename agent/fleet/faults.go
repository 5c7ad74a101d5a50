package fleet

import (
	"errors"
	"fmt"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

func (f *Fleet) member(name string) (*member, error) {
	if m := f.members[key(name)]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("fleet: there is no agent %q", name)
}

func (f *Fleet) with(name string, do func(*member)) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	do(m)
	return nil
}

// Agent is the agent of that name.
func (f *Fleet) Agent(name string) (*agent.Agent, error) {
	m, err := f.member(name)
	if err != nil {
		return nil, err
	}
	return m.present(), nil
}

// Host is the machine of that agent.
func (f *Fleet) Host(name string) (*simulated.Host, error) {
	m, err := f.member(name)
	if err != nil {
		return nil, err
	}
	return m.host, nil
}

// HTTPBaseURL is where the agent serves HTTP.
func (f *Fleet) HTTPBaseURL(name string) (string, error) {
	m, err := f.member(name)
	if err != nil {
		return "", err
	}
	if m.present().HTTPBaseURL() == "" {
		return "", fmt.Errorf("fleet: agent %q does not serve HTTP", name)
	}
	return m.present().HTTPBaseURL(), nil
}

// HTTPCommands is how many commands came to the agent over HTTP, whatever became of them.
func (f *Fleet) HTTPCommands(name string) (int, error) {
	m, err := f.member(name)
	if err != nil {
		return 0, err
	}
	return int(m.present().Stats().HTTPCommands), nil
}

// ControlServer is the name of the control server that a Direct agent works with; empty: none, it looks for one.
func (f *Fleet) ControlServer(name string) (string, error) {
	m, err := f.member(name)
	if err != nil {
		return "", err
	}
	return m.present().ControlServer(), nil
}

// Restart ends an agent, in order, and starts it anew where it was: on the same address, with its folders. What it only had in memory
// is gone.
func (f *Fleet) Restart(name string) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	return m.restart(f.running)
}

// Silence stops an agent's heartbeats. Commands are still taken.
func (f *Fleet) Silence(name string) error {
	return f.with(name, func(m *member) { m.faults.Silence() })
}

// Wake lets its heartbeats go on: at once, if one is overdue.
func (f *Fleet) Wake(name string) error { return f.with(name, func(m *member) { m.faults.Wake() }) }

// Mute makes an agent take and run commands and keep their answers to itself.
func (f *Fleet) Mute(name string) error { return f.with(name, func(m *member) { m.faults.Mute() }) }

// Answer ends Mute: the answers kept so far go out, late.
func (f *Fleet) Answer(name string) error { return f.with(name, func(m *member) { m.faults.Answer() }) }

// ForgetCommands switches an agent's journal off, for good: a command that comes twice runs twice.
func (f *Fleet) ForgetCommands(name string) error {
	return f.with(name, func(m *member) { m.faults.ForgetCommands() })
}

// Hang makes a service or pool of an agent's machine stay in its pending state whenever it is moved, until Release.
func (f *Fleet) Hang(name, unit string) error {
	return f.with(name, func(m *member) { m.host.Hang(unit) })
}

// Release lets it go on.
func (f *Fleet) Release(name, unit string) error {
	return f.with(name, func(m *member) { m.host.Release(unit) })
}

// Fail makes writes to a service, pool, package or installation fail with that detail; an empty one ends it.
func (f *Fleet) Fail(name, subject, detail string) error {
	var cause error
	if detail != "" {
		cause = errors.New(detail)
	}
	return f.with(name, func(m *member) { m.host.Fail(subject, cause) })
}
