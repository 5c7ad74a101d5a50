package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// refreshAfter is the idle time after which the link is opened anew before a send: the service detaches idle links after ten
// minutes, and the first send on such a link is slow and fails in ways that say nothing about the message.
const refreshAfter = 5 * time.Minute

// NotSentError says that nothing was sent.
type NotSentError struct{ error }

func (e *NotSentError) Unwrap() error { return e.error }

// ErrNotOpen is why nothing was sent on a link that has to be opened first.
var ErrNotOpen = errors.New("the link is not open")

// OnceSender sends what must not be sent twice: one attempt each, on a link that is known to be open. Its client must have
// been dialled with NoRetries. An error of Send that is not a *NotSentError is ambiguous: the message may have been sent.
type OnceSender struct {
	client *Client
	topic  string
	// opening holds a token while somebody opens the link; a mutex would not end with the context.
	opening chan struct{}

	mu   sync.Mutex // guards link; never held over I/O
	link *onceLink
}

// onceLink is one link. It is closed when nobody sends on it any more.
type onceLink struct {
	sdk     *azservicebus.Sender
	usedAt  time.Time
	sending sync.WaitGroup
}

// NewOnceSender prepares a sender; Open opens its link.
func (c *Client) NewOnceSender(topic string) *OnceSender {
	return &OnceSender{client: c, topic: topic, opening: make(chan struct{}, 1)}
}

// Open makes sure that the link is open, and was used lately. A failure is a *NotSentError.
func (s *OnceSender) Open(ctx context.Context) error {
	if s.touch(time.Now()) {
		return nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return &NotSentError{fmt.Errorf("the link to topic %s was not open in time: %w", s.topic, context.Cause(ctx))}
	}
	if s.touch(time.Now()) { // whoever was before us opened it
		return nil
	}
	sdk, err := s.dial(ctx)
	if err != nil && ctx.Err() == nil {
		// A client without retries notices a lost connection only by failing once; opening sends nothing, so it may be repeated.
		sdk, err = s.dial(ctx)
	}
	if err != nil {
		return &NotSentError{fmt.Errorf("the link to topic %s cannot be opened: %w", s.topic, Access(err, "Send", "topic "+s.topic))}
	}
	s.replace(&onceLink{sdk: sdk, usedAt: time.Now()})
	return nil
}

func (s *OnceSender) dial(ctx context.Context) (*azservicebus.Sender, error) {
	sdk, err := s.client.sdk.NewSender(s.topic, nil)
	if err != nil {
		return nil, err
	}
	// The SDK opens links lazily. Asking for a batch asks the link for its size limit, and so opens it.
	if _, err := sdk.NewMessageBatch(ctx, nil); err != nil {
		go closeSender(sdk)
		return nil, err
	}
	return sdk, nil
}

// touch tells whether the link is open and not idle for too long, and counts as using it.
func (s *OnceSender) touch(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil || now.Sub(s.link.usedAt) >= refreshAfter {
		return false
	}
	s.link.usedAt = now
	return true
}

// take is the link to send on, until done is called.
func (s *OnceSender) take() (link *onceLink, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil, nil
	}
	s.link.sending.Add(1)
	return s.link, s.link.sending.Done
}

// replace makes another link the one to use; nil: none. The old one is closed once its sends have ended.
func (s *OnceSender) replace(fresh *onceLink) {
	s.mu.Lock()
	old := s.link
	s.link = fresh
	s.mu.Unlock()
	old.retire()
}

// discard stops the use of a link that failed, if it is still the one in use.
func (s *OnceSender) discard(failed *onceLink) {
	s.mu.Lock()
	current := s.link == failed
	if current {
		s.link = nil
	}
	s.mu.Unlock()
	if current {
		failed.retire()
	}
}

func (l *onceLink) retire() {
	if l == nil {
		return
	}
	go func() {
		l.sending.Wait()
		closeSender(l.sdk)
	}()
}

// Renew makes the next Open open a link anew, because the present one is doubted. Sends under way on it are left alone.
func (s *OnceSender) Renew() { s.replace(nil) }

// Send sends one message, once, on the link that Open opened. It never opens one itself, since that may take a while: without
// a link it is a *NotSentError of ErrNotOpen.
func (s *OnceSender) Send(ctx context.Context, message *Message) error {
	link, done := s.take()
	if link == nil {
		return &NotSentError{ErrNotOpen}
	}
	defer done()
	bounded, end := context.WithCancel(ctx)
	defer end()
	err := link.sdk.SendMessage(once{bounded, end}, message, nil)
	if err == nil {
		return nil
	}
	if errors.Is(err, azservicebus.ErrMessageTooLarge) || rejected(err) {
		return &NotSentError{err} // neither the SDK nor the broker keeps such a message
	}
	s.discard(link)
	return err
}

// rejected tells the broker's own answer that it does not take the message, such as when it is busy, from the end of a link or a
// connection, which comes as another type and says nothing about the message.
func rejected(err error) bool {
	_, answer := err.(*amqp.Error) //nolint:errorlint // the errors of links may wrap one
	return answer
}

// Close closes the link once its sends have ended, or when the context ends.
func (s *OnceSender) Close(ctx context.Context) error {
	s.mu.Lock()
	link := s.link
	s.link = nil
	s.mu.Unlock()
	if link == nil {
		return nil
	}
	return link.sdk.Close(ctx)
}

func closeSender(sender *azservicebus.Sender) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	_ = sender.Close(ctx)
}

// once is a context for one attempt on a link that is open. Even with retries off, the SDK (v1.11.0, AMQPLinks.Retry) opens a link
// anew and sends again, at once, when the link was detached: also when the message had gone out on it. And for many that settle at
// once on a link that was lost, it opens one each (AMQPLinks.Get does not look again once it has the lock), and closes only the last:
// the others stay, and the renewals of their claims. While it sends or settles it only waits on the context; opening a link derives
// further contexts from it, which shows here as a call of Value, and ends it before the link is open. Were a later SDK to derive
// contexts in the attempt itself, attempts would fail rather than be repeated.
type once struct {
	context.Context
	end context.CancelFunc
}

func (o once) Value(key any) any {
	o.end()
	return o.Context.Value(key)
}
