package broker

import (
	"slices"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// errExists is the condition with which Service Bus refuses what is there already.
const errExists amqp.Symbol = "com.microsoft:entity-already-exists"

// Rules lists the rules of a subscription in the order they were made in, and says whether this is one.
func (q *Queue) Rules() ([]Rule, bool) {
	rules := q.rules.Load()
	if rules == nil {
		return nil, false
	}
	return slices.Clone(*rules), true
}

// AddRule adds a rule to a subscription. It refuses a name that one of its rules has.
func (q *Queue) AddRule(r Rule) *amqp.Error {
	if err := q.hasRules(); err != nil {
		return err
	}
	r.CreatedAt = q.clock.Now()
	found := false
	q.changeRules(func(rules []Rule) []Rule {
		if found = ruleIndex(rules, r.Name) >= 0; found {
			return rules
		}
		return append(rules, r)
	})
	if found {
		return amqp.Errorf(errExists, "The messaging entity '%s/Rules/%s' already exists.", q.path, r.Name)
	}
	q.touch(r.CreatedAt)
	return nil
}

// RemoveRule removes a rule of a subscription. A subscription without rules gets no messages.
func (q *Queue) RemoveRule(name string) *amqp.Error {
	if err := q.hasRules(); err != nil {
		return err
	}
	found := false
	q.changeRules(func(rules []Rule) []Rule {
		i := ruleIndex(rules, name)
		if found = i >= 0; !found {
			return rules
		}
		return slices.Delete(rules, i, i+1)
	})
	if !found {
		return amqp.Errorf(amqp.ErrNotFound, "The messaging entity '%s/Rules/%s' could not be found.", q.path, name)
	}
	q.touch(q.clock.Now())
	return nil
}

func (q *Queue) hasRules() *amqp.Error {
	if q.rules.Load() == nil {
		return amqp.Errorf(amqp.ErrNotAllowed, "'%s' is not a subscription; only subscriptions have rules", q.path)
	}
	return nil
}
