package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	roundInterval = time.Second
	sendBatch     = 100
	// newcomers are agents that send one heartbeat and no other: if that is lost, nothing hides it.
	newcomers = 20
	// Of a thousand heartbeats so many come twice, so many after a newer one, so many are poison, and so many begin a new boot.
	duplicates, reorderings, poisons, boots = 100, 50, 2, 5
	sendTimeout                             = 5 * time.Second
)

// beat tells one agent's heartbeat from its others.
type beat struct {
	boot     int
	sequence int64
}

// heartbeats sends those of agents that do nothing else, and remembers the newest of each.
type heartbeats struct {
	connection string
	random     *rand.Rand

	mu     sync.Mutex
	newest []beat
	once   int             // agents that sent their only heartbeat
	poison map[string]bool // by message id
	sent   int
}

func newHeartbeats(connection string, agents int, seed uint64) *heartbeats {
	h := &heartbeats{connection: connection, random: rand.New(rand.NewPCG(seed, 1)), newest: make([]beat, agents), poison: map[string]bool{}}
	return h
}

func beatingAgent(i int) string { return fmt.Sprintf("BEAT-%05d", i) }

// run sends one round after the other until the context ends. A batch that was begun is sent to its end, however long that takes:
// what was remembered as the newest must have been sent.
func (h *heartbeats) run(ctx context.Context) error {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	sender := &stubborn{connection: h.connection}
	defer sender.close()
	for ctx.Err() == nil {
		round := h.round()
		for len(round) > 0 {
			n := min(sendBatch, len(round))
			if err := sender.send(round[:n]); err != nil {
				return err
			}
			round = round[n:]
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// round is one heartbeat of every agent in a random order, with what goes wrong in the field.
func (h *heartbeats) round() []*azservicebus.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*azservicebus.Message
	for _, i := range h.random.Perm(len(h.newest)) {
		next := &h.newest[i]
		if h.happens(boots) || next.boot == 0 {
			*next = beat{boot: next.boot + 1}
		}
		next.sequence++
		if h.happens(reorderings) {
			next.sequence++
			all = append(all, message(i, *next), message(i, beat{next.boot, next.sequence - 1}))
		} else {
			all = append(all, message(i, *next))
		}
		if h.happens(duplicates) {
			all = append(all, message(i, *next))
		}
		if h.happens(poisons) {
			all = append(all, h.poisoned())
		}
	}
	for range newcomers {
		all = append(all, onlyMessage(h.once))
		h.once++
	}
	h.sent += len(all)
	return all
}

func (h *heartbeats) happens(perThousand int) bool { return h.random.IntN(1000) < perThousand }

func message(agent int, b beat) *azservicebus.Message {
	kind := "application/json"
	return &azservicebus.Message{ContentType: &kind, Body: fmt.Appendf(nil, `{"name":"%s","bootId":"%s","sequence":"%d"}`, beatingAgent(agent), bootID(agent, b.boot), b.sequence)}
}

func newcomer(i int) string { return fmt.Sprintf("ONCE-%06d", i) }

func onlyMessage(i int) *azservicebus.Message {
	kind := "application/json"
	return &azservicebus.Message{ContentType: &kind, Body: fmt.Appendf(nil, `{"name":"%s","bootId":"only","sequence":"1"}`, newcomer(i))}
}

func bootID(agent, boot int) string { return fmt.Sprintf("boot-%d-%d", agent, boot) }

func (h *heartbeats) poisoned() *azservicebus.Message {
	id := fmt.Sprintf("poison-%d", len(h.poison))
	h.poison[id] = true
	bodies := []string{"not json", `{"hostname":"nameless"}`, `{"name":"` + strings.Repeat("x", 129) + `"}`, ""}
	return &azservicebus.Message{MessageID: &id, Body: []byte(bodies[len(h.poison)%len(bodies)])}
}

// stubborn sends until the bus says that it has it, over a fresh connection after each failure.
type stubborn struct {
	connection string
	client     *azservicebus.Client
	sender     *azservicebus.Sender
}

func (s *stubborn) send(messages []*azservicebus.Message) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := s.try(messages)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		s.close()
		pass(context.Background(), 100*time.Millisecond)
	}
}

func (s *stubborn) try(messages []*azservicebus.Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	if s.client == nil {
		client, err := azservicebus.NewClientFromConnectionString(s.connection, &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
		if err != nil {
			return err
		}
		s.client = client
		if s.sender, err = client.NewSender(stateTopic, nil); err != nil {
			return err
		}
	}
	batch, err := s.sender.NewMessageBatch(ctx, nil)
	if err != nil {
		return err
	}
	for _, one := range messages {
		if err := batch.AddMessage(one, nil); err != nil {
			return err
		}
	}
	return s.sender.SendMessageBatch(ctx, batch, nil)
}

func (s *stubborn) close() {
	if s.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.client.Close(ctx)
	s.client = nil
}
