package atom

import (
	"fmt"
	"net/url"
	"strconv"
)

// view is a Handler as a client sees it: the URLs in answers are of the host the client used.
type view struct {
	*Handler
	host, version string
}

// Entries on a page. The SDK for Go takes a page smaller than it asked for to be the last one.
const (
	pageSize    = 100
	maxPageSize = 1000
)

func (v view) get(t target, query url.Values) (any, error) {
	if t.all {
		return v.list(t, query)
	}
	if t.kind == entities {
		t.kind = topics
		if _, isQueue := v.entities.Queue(t.entity); isQueue {
			t.kind = queues
		}
	}
	e, ok := v.one(t)
	if !ok {
		return nil, notFound(t.path())
	}
	e.Space = atomSpace
	return e, nil
}

// one answers the entry of one thing.
func (v view) one(t target) (*entry, bool) {
	switch t.kind {
	case namespaces:
		return v.namespace(t), true
	case rules:
		r, ok := v.rule(t)
		if !ok {
			return nil, false
		}
		return v.ruleEntry(t, r)
	}
	s, ok := v.settings(t)
	if !ok {
		return nil, false
	}
	return v.entityEntry(t, s)
}

func (v view) namespace(t target) *entry {
	at := timestamp(v.options.CreatedAt)
	e := v.entry(t, v.options.Name, at, at)
	e.Content.Namespace = &namespaceInfo{
		Space: busSpace, CreatedTime: at, MessagingSKU: "Standard", ModifiedTime: at, Name: v.options.Name, NamespaceType: "Messaging",
	}
	return e
}

// entityEntry is that of a queue, topic or subscription.
func (v view) entityEntry(t target, s Settings) (*entry, bool) {
	info, ok := v.entities.Info(t.path())
	if !ok {
		return nil, false
	}
	e := v.entry(t, s.Name, timestamp(info.CreatedAt), timestamp(info.UpdatedAt))
	d := describe(t.kind, v.host, s, info)
	switch t.kind {
	case queues:
		e.Content.Queue = d
	case topics:
		d.SqlFilterCount, d.CorrelationFilterCount = v.filterCounts(t.entity)
		e.Content.Topic = d
	case subscriptions:
		e.Content.Subscription = d
	}
	return e, true
}

// filterCounts counts true and false filters as the SQL filters that they are in Service Bus.
func (v view) filterCounts(topic string) (sql, correlation *string) {
	all, _ := v.entities.Subscriptions(topic)
	var sqls, correlations int
	for _, s := range all {
		each, _ := v.entities.Rules(topic, s.Name)
		for _, r := range each {
			if r.Filter.Kind == CorrelationFilter {
				correlations++
			} else {
				sqls++
			}
		}
	}
	return number(sqls), number(correlations)
}

// ruleEntry has the times of the subscription: when a rule was made is not known.
func (v view) ruleEntry(t target, r Rule) (*entry, bool) {
	of := t
	of.kind = subscriptions
	info, ok := v.entities.Info(of.path())
	if !ok {
		return nil, false
	}
	at := timestamp(info.CreatedAt)
	e := v.entry(t, r.Name, at, timestamp(info.UpdatedAt))
	e.Content.Rule = describeRule(r, at)
	return e, true
}

func (v view) entry(t target, name, published, updated string) *entry {
	self := v.url(t, nil)
	return &entry{
		ID: self, Title: title{"text", name}, Published: published, Updated: updated, Author: v.options.Name,
		Links: []link{{"self", self}}, Content: content{Type: "application/xml"},
	}
}

func (v view) url(t target, query url.Values) string {
	values := url.Values{}
	for name, value := range query {
		values[name] = value
	}
	if v.version != "" {
		values.Set("api-version", v.version)
	}
	return (&url.URL{Scheme: "https", Host: v.host, Path: "/" + t.path(), RawQuery: values.Encode()}).String()
}

// list answers a page, with a link to the next one if there is more.
func (v view) list(t target, query url.Values) (any, error) {
	skip, err := paging(query, "$skip", 0)
	if err != nil {
		return nil, err
	}
	top, err := paging(query, "$top", pageSize)
	if err != nil {
		return nil, err
	}
	top = min(top, maxPageSize)
	targets, ok := v.targets(t)
	if !ok {
		return nil, notFound(t.path())
	}
	f := &feed{
		Space: atomSpace, ID: v.url(t, nil), Updated: timestamp(v.options.CreatedAt), Links: []link{{"self", v.url(t, query)}},
		Title: title{"text", map[kind]string{queues: "Queues", topics: "Topics", subscriptions: "Subscriptions", rules: "Rules"}[t.kind]},
	}
	page := targets[min(skip, len(targets)):]
	page = page[:min(top, len(page))]
	for _, each := range page {
		if e, ok := v.one(each); ok { // otherwise it was deleted meanwhile
			f.Entries = append(f.Entries, *e)
		}
	}
	if next := skip + len(page); len(page) > 0 && next < len(targets) {
		f.Links = append(f.Links, link{"next", v.url(t, url.Values{"$skip": {strconv.Itoa(next)}, "$top": {strconv.Itoa(top)}})})
	}
	return f, nil
}

func paging(query url.Values, name string, standard int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest(fmt.Errorf("%s: %q is not a number from 0", name, text))
	}
	return n, nil
}

// targets are all things of a kind, and whether what they belong to exists.
func (v view) targets(t target) (all []target, ok bool) {
	each := t
	each.all = false
	switch t.kind {
	case rules:
		found, ok := v.entities.Rules(t.entity, t.subscription)
		for _, r := range found {
			each.rule = r.Name
			all = append(all, each)
		}
		return all, ok
	case subscriptions:
		found, ok := v.entities.Subscriptions(t.entity)
		for _, s := range found {
			each.subscription = s.Name
			all = append(all, each)
		}
		return all, ok
	}
	found := v.entities.Topics()
	if t.kind == queues {
		found = v.entities.Queues()
	}
	for _, s := range found {
		each.entity = s.Name
		all = append(all, each)
	}
	return all, true
}
