package servicebusemulator

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/page"
)

// healthPath is where Microsoft's samples look whether their emulator is up.
const healthPath = "/health"

// withPage adds the pages for browsers, and the answer that the emulator is up, to the administration API. A browser that asks for the root
// is led to the pages.
func withPage(api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == healthPath && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			answer(w, http.StatusOK, map[string]string{"status": "healthy"})
		case strings.HasPrefix(r.URL.Path, page.Root):
			pages.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"),
			r.URL.Path+"/" == page.Root:
			http.Redirect(w, r, page.Root, http.StatusSeeOther)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// paged is the broker as package page sees it.
type paged struct{ broker *broker.Broker }

const (
	deadLetterSuffix = "/$DeadLetterQueue"
	// maxShown is how much of a body a page shows, bytes.
	maxShown = 4 << 10
)

func (p paged) Entities() []page.Entity {
	var all []page.Entity
	for _, q := range p.broker.Queues() {
		all = append(all, p.entity("queue", q.Name, q.Name, q.ForwardTo))
	}
	for _, t := range p.broker.Topics() {
		all = append(all, p.entity("topic", t.Name, t.Name, ""))
		subscriptions, _ := p.broker.Subscriptions(t.Name)
		for _, s := range subscriptions {
			all = append(all, p.entity("subscription", s.Name, t.Name+"/Subscriptions/"+s.Name, s.ForwardTo))
		}
	}
	return all
}

// entity describes an entity that may be gone meanwhile, which then has no counts.
func (p paged) entity(kind, name, path, forwardTo string) page.Entity {
	i, _ := p.broker.Info(path)
	e := page.Entity{
		Kind: kind, Name: name, Path: path, Active: i.Active, Locked: i.Locked, Deferred: i.Deferred, Scheduled: i.Scheduled,
		DeadLetter: i.DeadLetter, Size: i.Size,
	}
	if kind != "topic" {
		e.DeadPath = path + deadLetterSuffix
	}
	if forwardTo != "" {
		e.Note = "forwards to " + forwardTo
	}
	return e
}

func (p paged) Messages(path string, from int64, limit int) ([]page.Message, bool) {
	q := p.broker.Queue(path)
	if q == nil {
		return nil, false
	}
	seen := q.Look(from, limit)
	messages := make([]page.Message, len(seen))
	for i := range seen {
		messages[i] = shown(&seen[i])
	}
	return messages, true
}

// Move leads from the path of a dead-letter queue to the entity it belongs to.
func (p paged) Move(path string, sequence int64) error {
	entity, isDead := strings.CutSuffix(strings.ToLower(path), strings.ToLower(deadLetterSuffix))
	q := p.broker.Queue(entity)
	if !isDead || q == nil {
		return fmt.Errorf("%q is not the dead-letter queue of an entity", path)
	}
	return orNil(q.Resubmit(sequence))
}

func (p paged) Delete(path string, sequence int64) error {
	q := p.broker.Queue(path)
	if q == nil {
		return fmt.Errorf("there is no entity %q", path)
	}
	return orNil(q.DeleteMessage(sequence))
}

// orNil keeps a nil *amqp.Error from becoming an error.
func orNil(err *amqp.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func shown(s *broker.Seen) page.Message {
	m := page.Message{
		Sequence: s.Sequence, ID: shownID(s.Properties.MessageID), Subject: s.Properties.Subject, SessionID: s.Properties.GroupID,
		CorrelationID: shownID(s.Properties.CorrelationID), ContentType: s.Properties.ContentType, State: "active",
		EnqueuedAt: s.EnqueuedAt, ExpiresAt: s.ExpiresAt, DeliveryCount: s.DeliveryCount, Size: s.Size, Source: s.DeadLetterSource,
	}
	switch {
	case !s.LockedUntil.IsZero():
		m.State, m.Until = "locked", s.LockedUntil
	case s.Deferred:
		m.State = "deferred"
	case !s.ScheduledFor.IsZero():
		m.State, m.Until = "scheduled", s.ScheduledFor
	}
	for _, e := range s.Application {
		name, value := fmt.Sprint(e.Key), shownValue(e.Value)
		switch name {
		case "DeadLetterReason":
			m.Reason = value
		case "DeadLetterErrorDescription":
			m.Description = value
		default:
			m.Properties = append(m.Properties, page.Property{Name: name, Value: value})
		}
	}
	m.Body, m.More = shownBody(s.Body)
	return m
}

func shownID(id any) string {
	if id == nil {
		return ""
	}
	return shownValue(id)
}

func shownValue(v any) string {
	switch v := v.(type) {
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// shownBody is the start of a body as text, or in hexadecimal, and how many bytes are left out.
func shownBody(body []byte) (text string, more int64) {
	var data []byte
	err := amqp.DataSections(body, func(section []byte) error {
		data = append(data, section...)
		return nil
	})
	if err != nil {
		if value, err := amqp.ValueSection(body); err == nil {
			data = []byte(shownValue(value))
		} else {
			data = body // a sequence, in the encoding of AMQP
		}
	}
	if len(data) > maxShown {
		more = int64(len(data) - maxShown)
		data = data[:maxShown]
		for i := 0; i < utf8.UTFMax && !utf8.Valid(data); i++ { // a character that was cut
			data = data[:len(data)-1]
			more++
		}
	}
	if !utf8.Valid(data) || strings.ContainsFunc(string(data), isControl) {
		return hex.Dump(data), more
	}
	return string(data), more
}

func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }
