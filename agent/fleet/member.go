package fleet

import (
	"context"
	"fmt"
	"sync"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

// member is one agent and its machine. The agent changes with each restart.
type member struct {
	host   *simulated.Host
	faults *agent.Faults
	failed func(error) // told of an agent that ended before it was told to

	mu     sync.Mutex
	config agent.Config
	agent  *agent.Agent
	former agent.Stats // of the agents before this one
	stop   context.CancelFunc
	ended  chan struct{} // closed when the agent has ended
}

// start makes the agent and runs it until it is stopped, or the context ends.
func (m *member) start(ctx context.Context) error {
	a, err := agent.New(m.config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	m.agent, m.stop, m.ended = a, stop, make(chan struct{})
	if m.config.HTTP != nil {
		m.config.HTTP.Listen = a.HTTPAddr() // a restarted agent is where it was
	}
	go func() {
		defer close(m.ended)
		if err := a.Run(ctx); err != nil {
			m.failed(err)
		}
	}()
	return nil
}

// restart ends the agent, waits for that, and starts it anew.
func (m *member) restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
	<-m.ended
	former := m.former.Plus(m.agent.Stats())
	if err := m.start(ctx); err != nil {
		return fmt.Errorf("fleet: agent %q was stopped, and does not start: %w", m.config.Name, err)
	}
	m.former = former
	return nil
}

// end waits for the agent to end.
func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
	<-m.ended
}

func (m *member) present() *agent.Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agent
}

func (m *member) stats() agent.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.former.Plus(m.agent.Stats())
}
