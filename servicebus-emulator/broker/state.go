package broker

import (
	"slices"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// SessionState answers what was last set as a session's state, or nil. Like setting it, that needs the session's
// lock, held by the link of that name if one is given.
func (q *Queue) SessionState(id, linkName string) ([]byte, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	s := q.sessions[id]
	if s == nil || !s.heldBy(linkName, q.clock.Now()) {
		return nil, sessionLockLost(id)
	}
	return s.state, nil
}

// SetSessionState keeps bytes with a session, whether or not it has messages; none clear what was kept.
func (q *Queue) SetSessionState(id, linkName string, state []byte) *amqp.Error {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	q.touch(now)
	s := q.sessions[id]
	if s == nil || !s.heldBy(linkName, now) {
		return sessionLockLost(id)
	}
	if more := int64(len(state) - len(s.state)); more <= 0 {
		q.quota.release(-more)
	} else if !q.quota.reserve(more) {
		return amqp.Errorf(amqp.ErrResourceLimitExceeded, "the maximum size of '%s' has been reached", q.path)
	}
	s.state, s.stateAt = slices.Clone(state), now
	return nil
}

// Sessions lists the sessions that have active messages or a state by id or, if a time is given, those whose state
// was set after it.
func (q *Queue) Sessions(stateSetAfter time.Time) []string {
	q.mu.Lock()
	defer q.unlock()
	var ids []string
	for id, s := range q.sessions {
		listed := len(s.state) > 0 || s.lane.length > 0 || len(s.locked) > 0
		if !stateSetAfter.IsZero() {
			listed = len(s.state) > 0 && s.stateAt.After(stateSetAfter)
		}
		if listed {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
