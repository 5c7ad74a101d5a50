package servicebusemulator

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// Limits of Service Bus.
const (
	maxLockDuration    = 5 * time.Minute
	minDuplicateWindow = 20 * time.Second
	maxDuplicateWindow = 7 * 24 * time.Hour
	minIdle            = 5 * time.Minute
)

// entities is a checked configuration.
type entities struct {
	topics []broker.TopicSettings
	queues []broker.QueueSettings
}

// entities checks the configuration. Errors name the key by its path.
func (c Config) entities() (entities, error) {
	namespaces := c.UserConfig.Namespaces
	if len(namespaces) != 1 {
		return entities{}, fmt.Errorf("UserConfig.Namespaces has %d entries; exactly one is supported", len(namespaces))
	}
	var e entities
	for i, t := range namespaces[0].Topics {
		settings, err := t.settings(fmt.Sprintf("UserConfig.Namespaces[0].Topics[%d]", i))
		if err != nil {
			return e, err
		}
		e.topics = append(e.topics, settings)
	}
	for i, q := range namespaces[0].Queues {
		settings, err := q.settings(fmt.Sprintf("UserConfig.Namespaces[0].Queues[%d]", i))
		if err != nil {
			return e, err
		}
		e.queues = append(e.queues, settings)
	}
	b, err := e.broker(broker.SystemClock{}) // names must be unique
	if err != nil {
		return e, err
	}
	defer b.Stop()
	return e, e.checkForwarding(b)
}

// checkForwarding refuses targets that do not exist.
func (e entities) checkForwarding(b *broker.Broker) error {
	check := func(path string, s broker.QueueSettings) error {
		for key, target := range map[string]string{
			"ForwardTo": s.ForwardTo, "ForwardDeadLetteredMessagesTo": s.ForwardDeadLettersTo,
		} {
			if target != "" && b.Destination(target) == nil {
				return fmt.Errorf("%s.Properties.%s: there is no queue or topic %q", path, key, target)
			}
		}
		return nil
	}
	for i, t := range e.topics {
		for j, s := range t.Subscriptions {
			if err := check(fmt.Sprintf("UserConfig.Namespaces[0].Topics[%d].Subscriptions[%d]", i, j), s); err != nil {
				return err
			}
		}
	}
	for i, q := range e.queues {
		if err := check(fmt.Sprintf("UserConfig.Namespaces[0].Queues[%d]", i), q); err != nil {
			return err
		}
	}
	return nil
}

// broker makes the broker with these entities.
func (e entities) broker(clock broker.Clock) (*broker.Broker, error) {
	b := broker.New(clock)
	for _, t := range e.topics {
		if err := b.AddTopic(t); err != nil {
			return nil, err
		}
	}
	for _, q := range e.queues {
		if err := b.AddQueue(q); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (t Topic) settings(path string) (broker.TopicSettings, error) {
	p, properties := t.Properties, path+".Properties"
	s := broker.TopicSettings{Name: t.Name, DefaultTTL: timeToLive(p.DefaultMessageTimeToLive)}
	var sizeErr, windowErr, idleErr error
	s.MaxSize, s.MaxMessageSize, sizeErr = sizes(properties, p.MaxSizeInMegabytes, p.MaxMessageSizeInKilobytes)
	s.DuplicateWindow, windowErr = duplicateWindow(properties, p.RequiresDuplicateDetection, p.DuplicateDetectionHistoryTimeWindow)
	s.AutoDeleteOnIdle, idleErr = idle(properties, p.AutoDeleteOnIdle)
	if err := firstError(checkName(path, t.Name, 260), sizeErr, windowErr, idleErr); err != nil {
		return s, err
	}
	for i, sub := range t.Subscriptions {
		settings, err := sub.settings(fmt.Sprintf("%s.Subscriptions[%d]", path, i))
		if err != nil {
			return s, err
		}
		s.Subscriptions = append(s.Subscriptions, settings)
	}
	return s, nil
}

func (q Queue) settings(path string) (broker.QueueSettings, error) {
	p, properties := q.Properties, path+".Properties"
	s, err := SubscriptionProperties{
		DeadLetteringOnMessageExpiration: p.DeadLetteringOnMessageExpiration,
		DefaultMessageTimeToLive:         p.DefaultMessageTimeToLive, LockDuration: p.LockDuration,
		MaxDeliveryCount: p.MaxDeliveryCount, RequiresSession: p.RequiresSession, ForwardTo: p.ForwardTo,
		ForwardDeadLetteredMessagesTo: p.ForwardDeadLetteredMessagesTo, AutoDeleteOnIdle: p.AutoDeleteOnIdle,
	}.settings(properties)
	s.Name = q.Name
	var sizeErr, windowErr error
	s.MaxSize, s.MaxMessageSize, sizeErr = sizes(properties, p.MaxSizeInMegabytes, p.MaxMessageSizeInKilobytes)
	s.DuplicateWindow, windowErr = duplicateWindow(properties, p.RequiresDuplicateDetection, p.DuplicateDetectionHistoryTimeWindow)
	return s, firstError(checkName(path, q.Name, 260), err, sizeErr, windowErr)
}

func (s Subscription) settings(path string) (broker.QueueSettings, error) {
	settings, err := s.Properties.settings(path + ".Properties")
	settings.Name = s.Name
	if err := firstError(checkName(path, s.Name, 50), err); err != nil {
		return settings, err
	}
	if strings.Contains(s.Name, "/") {
		return settings, fmt.Errorf("%s.Name: %q contains a slash", path, s.Name)
	}
	for i, r := range s.Rules {
		rule, err := r.rule(fmt.Sprintf("%s.Rules[%d]", path, i))
		if err != nil {
			return settings, err
		}
		settings.Rules = append(settings.Rules, rule)
	}
	return settings, nil
}

func (p SubscriptionProperties) settings(path string) (broker.QueueSettings, error) {
	lock := time.Duration(p.LockDuration)
	if lock == 0 {
		lock = broker.DefaultLockDuration
	}
	if lock < 0 || lock > maxLockDuration {
		return broker.QueueSettings{}, fmt.Errorf("%s.LockDuration: %s is not in (0, %s]", path, lock, maxLockDuration)
	}
	deliveries := p.MaxDeliveryCount
	if deliveries == 0 {
		deliveries = broker.DefaultMaxDeliveryCount
	}
	if deliveries < 1 || deliveries > 2000 {
		return broker.QueueSettings{}, fmt.Errorf("%s.MaxDeliveryCount: %d is not in 1 to 2000", path, deliveries)
	}
	idle, err := idle(path, p.AutoDeleteOnIdle)
	return broker.QueueSettings{
		LockDuration: lock, DefaultTTL: timeToLive(p.DefaultMessageTimeToLive), MaxDeliveryCount: uint32(deliveries),
		RequiresSession: p.RequiresSession, DeadLetterOnExpiration: p.DeadLetteringOnMessageExpiration,
		ForwardTo: p.ForwardTo, ForwardDeadLettersTo: p.ForwardDeadLetteredMessagesTo, AutoDeleteOnIdle: idle,
	}, err
}

// duplicateWindow answers zero where duplicates are not detected.
func duplicateWindow(path string, detect bool, window Duration) (time.Duration, error) {
	w := time.Duration(window)
	switch {
	case !detect:
		return 0, nil
	case w == 0:
		return broker.DefaultDuplicateWindow, nil
	case w < minDuplicateWindow || w > maxDuplicateWindow:
		return 0, fmt.Errorf("%s.DuplicateDetectionHistoryTimeWindow: %s is not in [%s, %s]",
			path, w, minDuplicateWindow, maxDuplicateWindow)
	}
	return w, nil
}

// idle answers zero where nothing is deleted.
func idle(path string, limit Duration) (time.Duration, error) {
	switch {
	case limit == 0 || limit.unlimited():
		return 0, nil
	case time.Duration(limit) < minIdle:
		return 0, fmt.Errorf("%s.AutoDeleteOnIdle: %s is less than %s", path, time.Duration(limit), minIdle)
	}
	return time.Duration(limit), nil
}

func timeToLive(d Duration) time.Duration {
	if d.unlimited() {
		return 0
	}
	return time.Duration(d)
}

func sizes(path string, megabytes, kilobytes int) (size int64, messageSize int, err error) {
	if megabytes == 0 {
		megabytes = int(broker.DefaultMaxSize >> 20)
	}
	if kilobytes == 0 {
		kilobytes = broker.DefaultMaxMessageSize >> 10
	}
	if megabytes < 1 || megabytes > 81920 {
		err = fmt.Errorf("%s.MaxSizeInMegabytes: %d is not in 1 to 81920", path, megabytes)
	}
	if kilobytes < 1 || kilobytes > 102400 {
		err = fmt.Errorf("%s.MaxMessageSizeInKilobytes: %d is not in 1 to 102400", path, kilobytes)
	}
	return int64(megabytes) << 20, kilobytes << 10, err
}

func checkName(path, name string, longest int) error {
	if name == "" || len(name) > longest {
		return fmt.Errorf("%s.Name: %q must have 1 to %d characters", path, name, longest)
	}
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return fmt.Errorf("%s.Name: %q must not start with $ or a slash, nor end with a slash", path, name)
	}
	return nil
}

// rule is the broker's.
func (r Rule) rule(path string) (broker.Rule, error) {
	f, err := r.filter(path)
	if err != nil || r.Properties.Action == nil {
		return broker.Rule{Name: r.Name, Filter: f}, err
	}
	action, err := r.Properties.Action.action(path + ".Properties.Action")
	return broker.Rule{Name: r.Name, Filter: f, Action: action}, err
}

func (r Rule) filter(path string) (filter.Filter, error) {
	p := r.Properties
	if err := checkName(path, r.Name, 50); err != nil && r.Name != "$Default" {
		return nil, err
	}
	path += ".Properties"
	kind := strings.ToLower(p.FilterType)
	switch {
	case p.SqlFilter != nil && kind != "sql":
		return nil, fmt.Errorf("%s.SqlFilter: it is there, but FilterType is %q", path, p.FilterType)
	case p.CorrelationFilter != nil && kind != "correlation":
		return nil, fmt.Errorf("%s.CorrelationFilter: it is there, but FilterType is %q", path, p.FilterType)
	}
	switch kind {
	case "true":
		return filter.True{}, nil
	case "false":
		return filter.False{}, nil
	case "sql":
		return p.SqlFilter.filter(path + ".SqlFilter")
	case "correlation":
		if p.CorrelationFilter == nil {
			return nil, fmt.Errorf("%s.CorrelationFilter: it is missing", path)
		}
		return p.CorrelationFilter.filter(path + ".CorrelationFilter")
	}
	return nil, fmt.Errorf("%s.FilterType: %q is not Correlation, Sql, True or False", path, p.FilterType)
}

func (s *Sql) filter(path string) (filter.Filter, error) {
	if s == nil {
		return nil, fmt.Errorf("%s: it is missing", path)
	}
	f, err := filter.ParseSQL(s.SqlExpression, numbers(s.Parameters))
	if err != nil {
		return nil, fmt.Errorf("%s.SqlExpression: %w", path, err)
	}
	return f, nil
}

func (s *Sql) action(path string) (*filter.Action, error) {
	a, err := filter.ParseAction(s.SqlExpression, numbers(s.Parameters))
	if err != nil {
		return nil, fmt.Errorf("%s.SqlExpression: %w", path, err)
	}
	return a, nil
}

// numbers makes the numbers that JSON left as text whole ones where they are, and floating-point ones otherwise: they
// divide differently.
func numbers(values map[string]any) map[string]any {
	plain := make(map[string]any, len(values))
	for name, v := range values {
		if n, ok := v.(json.Number); ok {
			if whole, err := n.Int64(); err == nil {
				v = whole
			} else if f, err := n.Float64(); err == nil {
				v = f
			}
		}
		plain[name] = v
	}
	return plain
}

func (c CorrelationFilter) filter(path string) (filter.Filter, error) {
	f := &filter.Correlation{
		ContentType: c.ContentType, CorrelationID: c.CorrelationId, Label: c.Label, MessageID: c.MessageId,
		ReplyTo: c.ReplyTo, ReplyToSessionID: c.ReplyToSessionId, SessionID: c.SessionId, To: c.To,
		Properties: numbers(c.Properties),
	}
	if f.IsEmpty() {
		return nil, fmt.Errorf("%s: it sets nothing, so it would select nothing in particular", path)
	}
	for name, value := range f.Properties {
		switch value.(type) {
		case string, bool, int, int64, float64:
		default:
			return nil, fmt.Errorf("%s.Properties.%s: %v is not a string, number or boolean", path, name, value)
		}
	}
	return f, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
