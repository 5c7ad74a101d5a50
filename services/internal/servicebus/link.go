package servicebus

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// link is one receiver, until it is lost or thrown away.
type link struct {
	receiver *azservicebus.Receiver
	// alive ends with the link, so that settlements which wait on it go on by another way at once.
	alive context.Context
	end   context.CancelFunc

	receiving sync.Mutex // held by the one that receives or closes
	credit    int        // how many messages the broker may still send without being asked again, at most
}

func newLink(receiver *azservicebus.Receiver) *link {
	alive, end := context.WithCancel(context.Background())
	return &link{receiver: receiver, alive: alive, end: end}
}

// receive waits for messages until the context or the link ends.
func (l *link) receive(ctx context.Context, most int, linger time.Duration) ([]*ReceivedMessage, error) {
	l.receiving.Lock()
	defer l.receiving.Unlock()
	if err := l.alive.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.alive, cancel)()
	messages, err := l.receiver.ReceiveMessages(ctx, most, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: linger})
	l.credit = max(l.credit, most) - len(messages)
	return messages, err
}

// close closes the link, and returns the messages that came after the last receive. The broker sends until it has heard of the
// close, what it sent stays locked, and the SDK throws it away, unless a receive is under way: that returns all that came.
func (l *link) close(ctx context.Context) (late []*ReceivedMessage, err error) {
	l.end()
	l.receiving.Lock()
	defer l.receiving.Unlock()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if l.credit == 0 {
		return nil, l.receiver.Close(ctx)
	}
	last := newAttended(ctx)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		defer last.end()
		// It asks for no more than the broker may send already.
		late, _ = l.receiver.ReceiveMessages(last, l.credit, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: settleTimeout})
	})
	<-last.begun
	err = l.receiver.Close(ctx)
	last.end() // a receive that has ended returns what has come, too
	receiving.Wait()
	return late, err
}

// discard closes a link that was lost and has been ended, once nobody receives on it any more: a receive that meets the closing
// could open it again, for good.
func (l *link) discard() {
	l.receiving.Lock()
	defer l.receiving.Unlock()
	closeReceiver(l.receiver)
}

// attended is a context that tells when somebody first waits on it, or that it has ended before.
type attended struct {
	context.Context
	end   context.CancelFunc
	begin sync.Once
	begun chan struct{}
}

func newAttended(parent context.Context) *attended {
	ctx, end := context.WithCancel(parent)
	a := &attended{Context: ctx, end: end, begun: make(chan struct{})}
	context.AfterFunc(ctx, a.attend)
	return a
}

func (a *attended) attend() { a.begin.Do(func() { close(a.begun) }) }

// Done is called by those that wait.
func (a *attended) Done() <-chan struct{} {
	a.attend()
	return a.Context.Done()
}
