package servicebusemulator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/commandcenter/fleet/servicebus-emulator/atom"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
	"github.com/commandcenter/fleet/servicebus-emulator/page"
)

// serveAdministration serves it where that is asked for.
func (e *Emulator) serveAdministration(cfg Config) error {
	if e.options.AdminListen == "" {
		return nil
	}
	err := checkListen("AdminListen", e.options.AdminListen, e.options.AllowRemote)
	if err == nil {
		e.admin, err = serveAdmin(e.options.AdminListen, e.administration(cfg))
	}
	return err
}

// administration is the API over the broker's entities.
func (e *Emulator) administration(cfg Config) http.Handler {
	options := atom.Options{Name: cmp.Or(cfg.UserConfig.Namespaces[0].Name, "servicebus-emulator"), CreatedAt: e.options.Clock.Now()}
	if len(e.options.Keys) > 0 {
		options.Authorize = e.authorize
	}
	pages := page.Options{Name: options.Name}
	if len(e.options.Keys) > 0 {
		pages.Authorize = e.mayManage
	}
	return withPage(atom.NewHandler(administered{e.broker}, options), page.NewHandler(paged{e.broker}, pages))
}

// mayManage reports whether a key, by its name, opens the administration.
func (e *Emulator) mayManage(name, key string) bool {
	return management.Keys(e.options.Keys).Plain([]byte("\x00" + name + "\x00" + key))
}

func (e *Emulator) authorize(token, path string) error {
	now := e.options.Clock.Now()
	claim, err := management.Keys(e.options.Keys).Verify(token, now)
	if err != nil {
		return fmt.Errorf("the token is not valid: %w", err)
	}
	if !claim.Covers(path, now) {
		return fmt.Errorf("the token is for %q, not for %q", claim.Path, path)
	}
	return nil
}

// administered is the broker as package atom sees it.
type administered struct{ *broker.Broker }

// written is a filter that remembers how its rule was written.
type written struct {
	filter.Filter
	rule atom.Rule
}

// Unwrap is the filter itself.
func (w written) Unwrap() filter.Filter { return w.Filter }

func (a administered) PutTopic(name string, s atom.Settings) error {
	return outcome(a.Broker.PutTopic(name, topicSettings(s)))
}

func (a administered) PutQueue(name string, s atom.Settings) error {
	return outcome(a.Broker.PutQueue(name, queueSettings(s)))
}

func (a administered) PutSubscription(topic, name string, s atom.Settings, first *atom.Rule) error {
	settings := queueSettings(s)
	if first != nil {
		r, err := brokerRule(*first)
		if err != nil {
			return err
		}
		settings.Rules = []broker.Rule{r}
	}
	return outcome(a.Broker.PutSubscription(topic, name, settings))
}

func (a administered) PutRule(topic, subscription string, r atom.Rule) error {
	rule, err := brokerRule(r)
	if err != nil {
		return err
	}
	return outcome(a.Broker.PutRule(topic, subscription, r.Name, rule))
}

func (a administered) DeleteTopic(name string) bool {
	_, ok := a.Broker.Topic(name)
	return ok && a.DeleteEntity(name)
}

func (a administered) DeleteQueue(name string) bool {
	_, ok := a.Queue(name)
	return ok && a.DeleteEntity(name)
}

func (a administered) DeleteSubscription(topic, name string) bool {
	_, ok := a.Subscription(topic, name)
	return ok && a.DeleteEntity(topic+"/Subscriptions/"+name)
}

func (a administered) Topic(name string) (atom.Settings, bool) {
	s, ok := a.Broker.Topic(name)
	return fromTopic(s), ok
}

// Queue looks at the list: the broker's own Queue also finds subscriptions and dead-letter queues.
func (a administered) Queue(name string) (atom.Settings, bool) {
	return find(a.Queues(), name)
}

func (a administered) Subscription(topic, name string) (atom.Settings, bool) {
	all, _ := a.Subscriptions(topic)
	return find(all, name)
}

func find(all []atom.Settings, name string) (atom.Settings, bool) {
	for _, s := range all {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
	}
	return atom.Settings{}, false
}

func (a administered) Topics() []atom.Settings { return each(a.Broker.Topics(), fromTopic) }
func (a administered) Queues() []atom.Settings { return each(a.Broker.Queues(), fromQueue) }

func (a administered) Subscriptions(topic string) ([]atom.Settings, bool) {
	all, ok := a.Broker.Subscriptions(topic)
	return each(all, fromQueue), ok
}

func (a administered) Rules(topic, subscription string) ([]atom.Rule, bool) {
	all, ok := a.Broker.Rules(topic, subscription)
	return each(all, atomRule), ok
}

func (a administered) Info(path string) (atom.Info, bool) {
	i, ok := a.Broker.Info(path)
	return atom.Info{
		Active: i.Active, DeadLetter: i.DeadLetter, Scheduled: i.Scheduled,
		Size: i.Size, Subscriptions: i.Subscriptions, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, AccessedAt: i.AccessedAt,
	}, ok
}

func each[A, B any](all []A, as func(A) B) []B {
	out := make([]B, 0, len(all))
	for _, a := range all {
		out = append(out, as(a))
	}
	return out
}

// outcome puts the broker's errors in atom's words. ErrFixed becomes a 400 by itself.
func outcome(err error) error {
	switch {
	case errors.Is(err, broker.ErrExists):
		return fmt.Errorf("%w: %w", atom.ErrExists, err)
	case errors.Is(err, broker.ErrNoEntity):
		return fmt.Errorf("%w: %w", atom.ErrNotFound, err)
	}
	return err
}

func topicSettings(s atom.Settings) broker.TopicSettings {
	return broker.TopicSettings{
		Name: s.Name, DefaultTTL: s.DefaultTTL, MaxSize: int64(s.MaxSizeInMegabytes) << 20, MaxMessageSize: s.MaxMessageKilobytes << 10,
		DuplicateWindow: s.DuplicateWindow, AutoDeleteOnIdle: s.AutoDeleteOnIdle, Notes: s.Notes,
	}
}

func queueSettings(s atom.Settings) broker.QueueSettings {
	return broker.QueueSettings{
		Name: s.Name, LockDuration: s.LockDuration, DefaultTTL: s.DefaultTTL, MaxDeliveryCount: uint32(s.MaxDeliveryCount),
		RequiresSession: s.RequiresSession, DeadLetterOnExpiration: s.DeadLetterOnExpiration, ForwardTo: s.ForwardTo,
		ForwardDeadLettersTo: s.ForwardDeadLettersTo, AutoDeleteOnIdle: s.AutoDeleteOnIdle, DuplicateWindow: s.DuplicateWindow,
		MaxSize: int64(s.MaxSizeInMegabytes) << 20, MaxMessageSize: s.MaxMessageKilobytes << 10, Notes: s.Notes,
	}
}

func fromTopic(s broker.TopicSettings) atom.Settings {
	notes, _ := s.Notes.(atom.Notes)
	return atom.Settings{
		Name: s.Name, DefaultTTL: s.DefaultTTL, MaxSizeInMegabytes: int(s.MaxSize >> 20), MaxMessageKilobytes: s.MaxMessageSize >> 10,
		DuplicateWindow: s.DuplicateWindow, AutoDeleteOnIdle: s.AutoDeleteOnIdle, Notes: notes,
	}
}

func fromQueue(s broker.QueueSettings) atom.Settings {
	notes, _ := s.Notes.(atom.Notes)
	return atom.Settings{
		Name: s.Name, LockDuration: s.LockDuration, DefaultTTL: s.DefaultTTL, MaxDeliveryCount: int(s.MaxDeliveryCount),
		RequiresSession: s.RequiresSession, DeadLetterOnExpiration: s.DeadLetterOnExpiration, ForwardTo: s.ForwardTo,
		ForwardDeadLettersTo: s.ForwardDeadLettersTo, AutoDeleteOnIdle: s.AutoDeleteOnIdle, DuplicateWindow: s.DuplicateWindow,
		MaxSizeInMegabytes: int(s.MaxSize >> 20), MaxMessageKilobytes: s.MaxMessageSize >> 10, Notes: notes,
	}
}

// brokerRule parses a rule. Errors name the element.
func brokerRule(r atom.Rule) (broker.Rule, error) {
	f, err := parseFilter(r.Filter)
	if err != nil {
		return broker.Rule{}, fmt.Errorf("the Filter: %w", err)
	}
	rule := broker.Rule{Name: r.Name, Filter: written{f, r}}
	if r.Action != nil {
		action, err := filter.ParseAction(r.Action.Expression, r.Action.Parameters)
		if err != nil {
			return broker.Rule{}, fmt.Errorf("the Action: SqlExpression: %w", err)
		}
		rule.Action = action
	}
	return rule, nil
}

func parseFilter(f atom.Filter) (filter.Filter, error) {
	switch f.Kind {
	case atom.FalseFilter:
		return filter.False{}, nil
	case atom.SQLFilter:
		parsed, err := filter.ParseSQL(f.SQL.Expression, f.SQL.Parameters)
		if err != nil {
			return nil, fmt.Errorf("SqlExpression: %w", err)
		}
		return parsed, nil
	case atom.CorrelationFilter:
		c := f.Correlation
		return &filter.Correlation{
			ContentType: c.ContentType, CorrelationID: c.CorrelationID, Label: c.Label, MessageID: c.MessageID,
			ReplyTo: c.ReplyTo, ReplyToSessionID: c.ReplyToSessionID, SessionID: c.SessionID, To: c.To,
			Properties: maps.Clone(c.Properties),
		}, nil
	}
	return filter.True{}, nil
}

// atomRule describes a rule that was made over HTTP as it was written, and one from a configuration by what it is.
func atomRule(r broker.Rule) atom.Rule {
	rule := atom.Rule{Name: r.Name, Filter: atom.Filter{Kind: atom.TrueFilter}}
	if r.Action != nil {
		rule.Action = &atom.SQL{Expression: r.Action.String(), Parameters: r.Action.Parameters()}
	}
	switch f := r.Filter.(type) {
	case written:
		f.rule.Name = r.Name
		return f.rule
	case filter.False:
		rule.Filter = atom.Filter{Kind: atom.FalseFilter}
	case *filter.SQL:
		rule.Filter = atom.Filter{Kind: atom.SQLFilter, SQL: atom.SQL{Expression: f.String(), Parameters: f.Parameters()}}
	case *filter.Correlation:
		rule.Filter = atom.Filter{Kind: atom.CorrelationFilter, Correlation: atom.Correlation{
			ContentType: f.ContentType, CorrelationID: f.CorrelationID, Label: f.Label, MessageID: f.MessageID,
			ReplyTo: f.ReplyTo, ReplyToSessionID: f.ReplyToSessionID, SessionID: f.SessionID, To: f.To, Properties: f.Properties,
		}}
	}
	return rule
}
