package store

import (
	"fmt"
	"time"
)

// ServerNotFoundError says that no server has the name.
type ServerNotFoundError struct{ Name string }

func (e *ServerNotFoundError) Error() string { return fmt.Sprintf("there is no server %q", e.Name) }

// ServerAmbiguousError says that several servers have the name, so that none can be meant.
type ServerAmbiguousError struct {
	Name string
	Keys []int64
}

func (e *ServerAmbiguousError) Error() string {
	return fmt.Sprintf("%d servers are named %q (ServerKey %v)", len(e.Keys), e.Name, e.Keys)
}

// ServerTypeError says that a server is of a type that is not judged.
type ServerTypeError struct{ Name, Type string }

func (e *ServerTypeError) Error() string {
	return fmt.Sprintf("server %q is of type %q; only %s servers are judged", e.Name, e.Type, ServerType)
}

// EtagRequiredError says that a change came without the etag of what it changes.
type EtagRequiredError struct{ Current string }

func (e *EtagRequiredError) Error() string { return "the etag of what is changed is required" }

// StaleEtagError says that what is changed was changed meanwhile.
type StaleEtagError struct{ Current string }

func (e *StaleEtagError) Error() string {
	return "it was changed meanwhile; its etag is now " + e.Current
}

func checkEtag(given, current string) error {
	switch given {
	case "":
		return &EtagRequiredError{Current: current}
	case current:
		return nil
	}
	return &StaleEtagError{Current: current}
}

// PastError says that maintenance would have ended already.
type PastError struct{ EndAt, Now time.Time }

func (e *PastError) Error() string {
	return fmt.Sprintf("it would have ended at %s already; the database's time is %s", e.EndAt.Format(time.RFC3339), e.Now.Format(time.RFC3339))
}

// MaxWindows is how many windows a server may have, those that ended for good aside.
const MaxWindows = 100

// TooManyError says that a server has as many windows as it may have.
type TooManyError struct{ Server string }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("server %q has %d maintenance windows, as many as it may have: delete one first", e.Server, MaxWindows)
}

// WindowNotFoundError says that a server has no such window.
type WindowNotFoundError struct {
	Server string
	ID     int64
}

func (e *WindowNotFoundError) Error() string {
	return fmt.Sprintf("server %q has no maintenance window %d", e.Server, e.ID)
}

// KeyReusedError says that another window was asked for under the key.
type KeyReusedError struct{ Key string }

func (e *KeyReusedError) Error() string {
	return fmt.Sprintf("another request was made under the Idempotency-Key %s", e.Key)
}

// MadeAndGoneError says that the window that was made under the key does not exist any more.
type MadeAndGoneError struct {
	Key string
	ID  int64
}

func (e *MadeAndGoneError) Error() string {
	return fmt.Sprintf("window %d was made under the Idempotency-Key %s, and deleted since", e.ID, e.Key)
}
