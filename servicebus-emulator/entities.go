package servicebusemulator

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// Defaults of Service Bus, but for the size, which there is 1024 MB and on disk.
const (
	defaultLockDuration     = time.Minute
	maxLockDuration         = 5 * time.Minute
	defaultMaxDeliveryCount = 10
	defaultSizeMegabytes    = 256
	defaultMessageKilobytes = 256
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
	_, err := e.broker(broker.SystemClock{}) // names must be unique
	return e, err
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
	s := broker.TopicSettings{Name: t.Name, DefaultTTL: timeToLive(t.Properties.DefaultMessageTimeToLive)}
	properties := path + ".Properties"
	megabytes, kilobytes, err := sizes(properties, t.Properties.MaxSizeInMegabytes, t.Properties.MaxMessageSizeInKilobytes)
	s.MaxSize, s.MaxMessageSize = megabytes, kilobytes
	if err := firstError(checkName(path, t.Name, 260), err, t.Properties.refuse(properties)); err != nil {
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
	p := q.Properties
	s, err := SubscriptionProperties{
		DeadLetteringOnMessageExpiration: p.DeadLetteringOnMessageExpiration,
		DefaultMessageTimeToLive:         p.DefaultMessageTimeToLive, LockDuration: p.LockDuration,
		MaxDeliveryCount: p.MaxDeliveryCount, RequiresSession: p.RequiresSession, Unsupported: p.Unsupported,
	}.settings(path + ".Properties")
	s.Name = q.Name
	megabytes, kilobytes, sizeErr := sizes(path+".Properties", p.MaxSizeInMegabytes, p.MaxMessageSizeInKilobytes)
	s.MaxSize, s.MaxMessageSize = megabytes, kilobytes
	return s, firstError(checkName(path, q.Name, 260), err, sizeErr)
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
	return settings, s.rules(path, &settings)
}

func (p SubscriptionProperties) settings(path string) (broker.QueueSettings, error) {
	lock := time.Duration(p.LockDuration)
	if lock == 0 {
		lock = defaultLockDuration
	}
	if lock < 0 || lock > maxLockDuration {
		return broker.QueueSettings{}, fmt.Errorf("%s.LockDuration: %s is not in (0, %s]", path, lock, maxLockDuration)
	}
	deliveries := p.MaxDeliveryCount
	if deliveries == 0 {
		deliveries = defaultMaxDeliveryCount
	}
	if deliveries < 1 || deliveries > 2000 {
		return broker.QueueSettings{}, fmt.Errorf("%s.MaxDeliveryCount: %d is not in 1 to 2000", path, deliveries)
	}
	return broker.QueueSettings{
		LockDuration: lock, DefaultTTL: timeToLive(p.DefaultMessageTimeToLive), MaxDeliveryCount: uint32(deliveries),
		RequiresSession: p.RequiresSession, DeadLetterOnExpiration: p.DeadLetteringOnMessageExpiration,
	}, p.refuse(path)
}

func timeToLive(d Duration) time.Duration {
	if d.unlimited() {
		return 0
	}
	return time.Duration(d)
}

func sizes(path string, megabytes, kilobytes int) (size int64, messageSize int, err error) {
	if megabytes == 0 {
		megabytes = defaultSizeMegabytes
	}
	if kilobytes == 0 {
		kilobytes = defaultMessageKilobytes
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

// rules sets the rules in the settings of a subscription. Those without an action together select a message once.
func (s Subscription) rules(path string, settings *broker.QueueSettings) error {
	var together filter.Any
	for i, r := range s.Rules {
		path := fmt.Sprintf("%s.Rules[%d]", path, i)
		f, err := r.filter(path)
		if err != nil {
			return err
		}
		if r.Properties.Action == nil {
			together = append(together, f)
			continue
		}
		action, err := r.Properties.Action.action(path + ".Properties.Action")
		if err != nil {
			return err
		}
		settings.Actions = append(settings.Actions, broker.Rule{Name: r.Name, Filter: f, Action: action})
	}
	if len(s.Rules) > 0 {
		settings.Filter = together
	}
	return nil
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
	f, err := filter.ParseSQL(s.SqlExpression, s.parameters())
	if err != nil {
		return nil, fmt.Errorf("%s.SqlExpression: %w", path, err)
	}
	return f, nil
}

func (s *Sql) action(path string) (*filter.Action, error) {
	a, err := filter.ParseAction(s.SqlExpression, s.parameters())
	if err != nil {
		return nil, fmt.Errorf("%s.SqlExpression: %w", path, err)
	}
	return a, nil
}

// parameters are whole numbers again where JSON made them floating-point ones: they divide differently.
func (s *Sql) parameters() map[string]any {
	parameters := make(map[string]any, len(s.Parameters))
	for name, v := range s.Parameters {
		if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			v = int64(f)
		}
		parameters[name] = v
	}
	return parameters
}

func (c CorrelationFilter) filter(path string) (filter.Filter, error) {
	f := &filter.Correlation{
		ContentType: c.ContentType, CorrelationID: c.CorrelationId, Label: c.Label, MessageID: c.MessageId,
		ReplyTo: c.ReplyTo, ReplyToSessionID: c.ReplyToSessionId, SessionID: c.SessionId, To: c.To,
		Properties: c.Properties,
	}
	if f.IsEmpty() {
		return nil, fmt.Errorf("%s: it sets nothing, so it would select nothing in particular", path)
	}
	for name, value := range c.Properties {
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
