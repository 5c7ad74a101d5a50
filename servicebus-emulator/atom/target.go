package atom

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind int

const (
	namespaces kind = iota
	entities        // a queue or a topic: only the body or the entity itself tells
	queues
	topics
	subscriptions
	rules
)

// target is what a path leads to: one thing, or all of a kind.
type target struct {
	kind kind
	all  bool

	entity, subscription, rule string
}

// Longest names, in characters.
const (
	maxEntityName = 260
	maxOtherName  = 50
)

// parseTarget reads the path of a URL, decoded. Names of queues and topics may contain slashes.
func parseTarget(path string) (target, error) {
	path = strings.TrimPrefix(path, "/")
	switch strings.ToLower(strings.TrimSuffix(path, "/")) {
	case "$namespaceinfo":
		return target{kind: namespaces}, nil
	case "$resources/queues":
		return target{kind: queues, all: true}, nil
	case "$resources/topics":
		return target{kind: topics, all: true}, nil
	}
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if !strings.EqualFold(parts[i], "Subscriptions") {
			continue
		}
		if t, ok := below(strings.Join(parts[:i], "/"), parts[i+1:]); ok {
			return t, t.checkNames()
		}
	}
	t := target{kind: entities, entity: strings.TrimSuffix(path, "/")}
	return t, t.checkNames()
}

// below reads what follows <topic>/Subscriptions.
func below(topic string, parts []string) (target, bool) {
	t := target{kind: subscriptions, entity: topic}
	if len(parts) == 0 || (len(parts) == 1 && parts[0] == "") {
		t.all = true
		return t, true
	}
	t.subscription = parts[0]
	if len(parts) == 1 || (len(parts) == 2 && parts[1] == "") {
		return t, true
	}
	if t.kind = rules; !strings.EqualFold(parts[1], "Rules") || len(parts) > 3 {
		return t, false
	}
	if len(parts) == 3 {
		t.rule = parts[2]
	}
	t.all = t.rule == ""
	return t, true
}

func (t target) checkNames() error {
	if err := checkName("the entity's name", t.entity, maxEntityName); err != nil {
		return err
	}
	for _, part := range strings.Split(t.entity, "/") {
		if part == "" {
			return fmt.Errorf("the entity's name: %q has an empty part", t.entity)
		}
	}
	if t.subscription != "" {
		if err := checkName("the subscription's name", t.subscription, maxOtherName); err != nil {
			return err
		}
	}
	return checkRuleName(t.rule)
}

func checkRuleName(name string) error {
	if name == "" || name == DefaultRuleName {
		return nil
	}
	return checkName("the rule's name", name, maxOtherName)
}

func checkName(what, name string, longest int) error {
	forbidden := func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune("?#@*\\", r) }
	switch {
	case name == "" || utf8.RuneCountInString(name) > longest:
		return fmt.Errorf("%s: %q does not have 1 to %d characters", what, name, longest)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, forbidden) || strings.HasPrefix(name, "$"):
		return fmt.Errorf("%s: %q starts with $, or contains a control character or one of ? # @ * \\", what, name)
	}
	return nil
}

// path is that of a URL, not encoded. It is also the path of an entity or subscription as Entities know it.
func (t target) path() string {
	switch {
	case t.kind == namespaces:
		return "$namespaceinfo"
	case t.kind == queues && t.all:
		return "$Resources/queues"
	case t.kind == topics && t.all:
		return "$Resources/topics"
	}
	path := t.entity
	if t.kind == subscriptions || t.kind == rules {
		path = strings.TrimSuffix(path+"/Subscriptions/"+t.subscription, "/")
	}
	if t.kind == rules {
		path = strings.TrimSuffix(path+"/Rules/"+t.rule, "/")
	}
	return path
}

// title is the name of the thing itself.
func (t target) title() string {
	switch t.kind {
	case rules:
		return t.rule
	case subscriptions:
		return t.subscription
	}
	return t.entity
}
