package atom_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/atom"
)

// fake is Entities in memory. A SQL expression "bad" is one that cannot be parsed.
type fake struct {
	mu   sync.Mutex
	all  map[string]*fakeEntity // by path in lower case
	info atom.Info
}

type fakeEntity struct {
	kind, topic string
	settings    atom.Settings
	rules       []atom.Rule
}

func newFake() *fake {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456700, time.UTC)
	return &fake{all: map[string]*fakeEntity{}, info: atom.Info{
		Active: 1, DeadLetter: 2, Scheduled: 3, Transfer: 4, TransferDeadLetter: 5, Size: 6,
		CreatedAt: at, UpdatedAt: at.Add(time.Hour),
	}}
}

func subscriptionPath(topic, name string) string { return topic + "/Subscriptions/" + name }

func (f *fake) put(kind, topic, path string, s atom.Settings, r ...atom.Rule) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.all[strings.ToLower(path)]
	switch {
	case e == nil:
		f.all[strings.ToLower(path)] = &fakeEntity{kind: kind, topic: topic, settings: s, rules: r}
	case e.kind != kind:
		return atom.ErrExists
	case e.settings.RequiresSession != s.RequiresSession:
		return errors.New("RequiresSession: it cannot be changed")
	default:
		e.settings = s
	}
	return nil
}

func (f *fake) PutTopic(name string, s atom.Settings) error { return f.put("topic", "", name, s) }
func (f *fake) PutQueue(name string, s atom.Settings) error { return f.put("queue", "", name, s) }

func (f *fake) PutSubscription(topic, name string, s atom.Settings, first *atom.Rule) error {
	if _, ok := f.Topic(topic); !ok {
		return atom.ErrNotFound
	}
	rule := atom.Rule{Name: atom.DefaultRuleName, Filter: atom.Filter{Kind: atom.TrueFilter}}
	if first != nil {
		rule = *first
	}
	return f.put("subscription", topic, subscriptionPath(topic, name), s, rule)
}

func (f *fake) PutRule(topic, subscription string, r atom.Rule) error {
	if r.Filter.SQL.Expression == "bad" {
		return errors.New("SqlExpression: column 1: it is bad")
	}
	f.DeleteRule(topic, subscription, r.Name)
	e := f.find("subscription", subscriptionPath(topic, subscription))
	if e == nil {
		return atom.ErrNotFound
	}
	e.rules = append(e.rules, r)
	return nil
}

func (f *fake) find(kind, path string) *fakeEntity {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.all[strings.ToLower(path)]; e != nil && e.kind == kind {
		return e
	}
	return nil
}

func (f *fake) delete(kind, path string) bool {
	found := f.find(kind, path) != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	if found {
		delete(f.all, strings.ToLower(path))
	}
	return found
}

func (f *fake) DeleteTopic(name string) bool { return f.delete("topic", name) }
func (f *fake) DeleteQueue(name string) bool { return f.delete("queue", name) }
func (f *fake) DeleteSubscription(topic, name string) bool {
	return f.delete("subscription", subscriptionPath(topic, name))
}

func (f *fake) DeleteRule(topic, subscription, name string) bool {
	e := f.find("subscription", subscriptionPath(topic, subscription))
	if e == nil {
		return false
	}
	before := len(e.rules)
	e.rules = slices.DeleteFunc(e.rules, func(r atom.Rule) bool { return strings.EqualFold(r.Name, name) })
	return len(e.rules) < before
}

func (f *fake) get(kind, path string) (atom.Settings, bool) {
	if e := f.find(kind, path); e != nil {
		return e.settings, true
	}
	return atom.Settings{}, false
}

func (f *fake) Topic(name string) (atom.Settings, bool) { return f.get("topic", name) }
func (f *fake) Queue(name string) (atom.Settings, bool) { return f.get("queue", name) }
func (f *fake) Subscription(topic, name string) (atom.Settings, bool) {
	return f.get("subscription", subscriptionPath(topic, name))
}

func (f *fake) list(kind, topic string) (all []atom.Settings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		if e.kind == kind && strings.EqualFold(e.topic, topic) {
			all = append(all, e.settings)
		}
	}
	slices.SortFunc(all, func(x, y atom.Settings) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func (f *fake) Topics() []atom.Settings { return f.list("topic", "") }
func (f *fake) Queues() []atom.Settings { return f.list("queue", "") }

func (f *fake) Subscriptions(topic string) ([]atom.Settings, bool) {
	_, ok := f.Topic(topic)
	return f.list("subscription", topic), ok
}

func (f *fake) Rules(topic, subscription string) ([]atom.Rule, bool) {
	e := f.find("subscription", subscriptionPath(topic, subscription))
	if e == nil {
		return nil, false
	}
	return slices.Clone(e.rules), true
}

func (f *fake) Info(path string) (atom.Info, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.all[strings.ToLower(path)]
	i := f.info
	i.Subscriptions = 7
	return i, ok
}
