package agent

import (
	"context"
	"sync"
)

// Faults makes an agent misbehave on demand. It is for demonstrations and tests; the zero value does nothing.
type Faults struct {
	mu     sync.Mutex
	silent bool
	woken  chan struct{} // closed by Wake; nil unless silent
	muted  chan struct{} // closed by Answer; nil unless muted
	forget bool
}

// Silence stops the heartbeats. Commands are still taken.
func (f *Faults) Silence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.silent {
		f.silent, f.woken = true, make(chan struct{})
	}
}

// Wake lets heartbeats go on: at once, if one is overdue.
func (f *Faults) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		f.silent = false
		close(f.woken)
	}
}

// Mute makes the agent take and run commands and keep their answers to itself.
func (f *Faults) Mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.muted == nil {
		f.muted = make(chan struct{})
	}
}

// Answer ends Mute: the answers kept so far go out, late.
func (f *Faults) Answer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.muted != nil {
		close(f.muted)
		f.muted = nil
	}
}

// ForgetCommands switches the journal off: what comes from now on is neither recorded nor looked up, so that a command
// that comes twice runs twice. It shows that a test would notice. There is no way back.
func (f *Faults) ForgetCommands() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget = true
}

func (f *Faults) forgetful() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forget
}

// awake waits while the agent is silent.
func (f *Faults) awake(ctx context.Context) {
	f.mu.Lock()
	silent, woken := f.silent, f.woken
	f.mu.Unlock()
	if !silent {
		return
	}
	select {
	case <-woken:
	case <-ctx.Done():
	}
}

// speak waits while the agent is muted; false means that the context ended first.
func (f *Faults) speak(ctx context.Context) bool {
	f.mu.Lock()
	muted := f.muted
	f.mu.Unlock()
	if muted == nil {
		return true
	}
	select {
	case <-muted:
		return true
	case <-ctx.Done():
		return false
	}
}
