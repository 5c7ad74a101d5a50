package atom

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// put makes an entity, or changes one that must exist.
func (v view) put(t target, c content, update bool) (int, any, error) {
	v.changing.Lock()
	defer v.changing.Unlock()
	var err error
	switch {
	case t.kind == entities && c.Queue != nil:
		t.kind = queues
		err = v.putEntity(t, c.Queue, update)
	case t.kind == entities && c.Topic != nil:
		t.kind = topics
		err = v.putEntity(t, c.Topic, update)
	case t.kind == subscriptions && c.Subscription != nil:
		err = v.putEntity(t, c.Subscription, update)
	case t.kind == rules && c.Rule != nil:
		t, err = v.putRule(t, c.Rule, update)
	default:
		err = badRequest(errors.New("the description in the body is of another kind than the path"))
	}
	if err != nil {
		return 0, nil, putError(t, err)
	}
	status := http.StatusCreated
	if update {
		status = http.StatusOK
	}
	e, ok := v.one(t)
	if !ok {
		return 0, nil, notFound(t.path()) // deleted meanwhile
	}
	e.Space = atomSpace
	return status, e, nil
}

func putError(t target, err error) error {
	var f *failure
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, ErrExists):
		return conflict(t.path())
	case errors.Is(err, ErrNotFound):
		return notFound(t.path())
	}
	return badRequest(err)
}

func (v view) putEntity(t target, d *description, update bool) error {
	now, exists := v.settings(t)
	if err := mayPut(t, exists, update); err != nil {
		return err
	}
	s, err := d.settings(t.kind, now)
	if err != nil {
		return err
	}
	s.Name = t.title()
	switch t.kind {
	case queues:
		return v.entities.PutQueue(s.Name, s)
	case topics:
		return v.entities.PutTopic(s.Name, s)
	}
	var first *Rule
	if d.DefaultRuleDescription != nil && !update {
		r, err := d.DefaultRuleDescription.rule()
		if err == nil {
			err = checkRuleName(r.Name)
		}
		if err != nil {
			return fmt.Errorf("DefaultRuleDescription: %w", err)
		}
		first = &r
	}
	return v.entities.PutSubscription(t.entity, s.Name, s, first)
}

// putRule answers the target with the name, which the Go SDK leaves out of the path of a rule with the default one.
func (v view) putRule(t target, x *ruleXML, update bool) (target, error) {
	r, err := x.rule()
	if err != nil {
		return t, err
	}
	if t.rule != "" {
		r.Name = t.rule
	}
	if err := checkRuleName(r.Name); err != nil {
		return t, err
	}
	t.rule, t.all = r.Name, false
	if _, ok := v.entities.Rules(t.entity, t.subscription); !ok {
		return t, ErrNotFound
	}
	_, exists := v.rule(t)
	if err := mayPut(t, exists, update); err != nil {
		return t, err
	}
	return t, v.entities.PutRule(t.entity, t.subscription, r)
}

func mayPut(t target, exists, update bool) error {
	switch {
	case exists && !update:
		return conflict(t.path())
	case !exists && update:
		return notFound(t.path())
	}
	return nil
}

func (v view) settings(t target) (Settings, bool) {
	switch t.kind {
	case queues:
		return v.entities.Queue(t.entity)
	case topics:
		return v.entities.Topic(t.entity)
	}
	return v.entities.Subscription(t.entity, t.subscription)
}

func (v view) rule(t target) (Rule, bool) {
	all, _ := v.entities.Rules(t.entity, t.subscription)
	for _, r := range all {
		if strings.EqualFold(r.Name, t.rule) {
			return r, true
		}
	}
	return Rule{}, false
}
