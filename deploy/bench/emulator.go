package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/commandcenter/fleet/deploy/entities"
	"github.com/commandcenter/fleet/deploy/process"
)

const (
	// A queue of its own kind: the state subscription, which nobody else receives from here.
	emulatorParallel    = 32
	emulatorConnections = 10_000
)

// benchEmulator measures the emulator by itself, with the SDK in this process and nothing of ours between.
func (r *Report) benchEmulator(ctx context.Context) error {
	bus, err := startEmulator()
	if err != nil {
		return err
	}
	defer bus.Close()
	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString(), nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	sender, err := client.NewSender(stateTopic, nil)
	if err != nil {
		return err
	}
	singles, messages := scaled(20_000), scaled(100_000)
	rate, err := throughput(emulatorParallel, singles, func() error {
		return sender.SendMessage(ctx, &azservicebus.Message{Body: heartbeat("E", 1, "a", 1)}, nil)
	})
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "emulator alone: single sends, 32 at once", Value: rate, Unit: "/s"})
	began := time.Now()
	if err := sendRange(ctx, sender, "E", 0, messages, "a", 1); err != nil {
		return err
	}
	r.Add(Figure{Name: "emulator alone: sends in batches of 100", Value: float64(messages) / time.Since(began).Seconds(), Unit: "/s"})
	began = time.Now()
	if err := receiveAll(ctx, client, singles+messages); err != nil {
		return err
	}
	r.Add(Figure{Name: "emulator alone: receive and complete, 32 completing", Value: float64(singles+messages) / time.Since(began).Seconds(), Unit: "/s"})
	alone := &system{emulator: bus}
	pingPong, err := alone.bareRoundTrip(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "emulator alone: send, receive, complete one after the other, median", Value: milliseconds(pingPong), Unit: "ms"})
	return r.benchConnections(ctx)
}

// receiveAll receives so many messages and completes each.
func receiveAll(ctx context.Context, client *azservicebus.Client, total int) error {
	receiver, err := client.NewReceiverForSubscription(stateTopic, stateSubscription, nil)
	if err != nil {
		return err
	}
	work := make(chan *azservicebus.ReceivedMessage, 1000)
	failures := make([]error, emulatorParallel)
	var group sync.WaitGroup
	for i := range emulatorParallel {
		group.Go(func() {
			for message := range work {
				failures[i] = errors.Join(failures[i], receiver.CompleteMessage(ctx, message, nil))
			}
		})
	}
	for got := 0; got < total && err == nil; {
		var received []*azservicebus.ReceivedMessage
		received, err = receiver.ReceiveMessages(ctx, 500, nil)
		got += len(received)
		for _, message := range received {
			work <- message
		}
	}
	close(work)
	group.Wait()
	return errors.Join(append(failures, err)...)
}

// benchConnections measures the memory of an emulator in a process of its own, with a session and a link on each connection.
func (r *Report) benchConnections(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fleet-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "Config.json")
	if err := os.WriteFile(config, entities.File(), 0o600); err != nil {
		return err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	emulator, err := process.Start("servicebus-emulator", dir, "-config", config, "-listen", address)
	if err != nil {
		return err
	}
	defer emulator.Stop()
	first, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer first.Close()
	before, err := emulator.Memory()
	if err != nil {
		return err
	}
	connections := make([]*amqp.Conn, 0, emulatorConnections)
	defer func() {
		for _, one := range connections {
			_ = one.Close()
		}
	}()
	began := time.Now()
	for range scaled(emulatorConnections) {
		one, err := connect(ctx, address)
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(connections), err)
		}
		connections = append(connections, one)
	}
	after, err := emulator.Memory()
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "emulator alone: memory per 10,000 connections, a link on each", Value: float64(after-before) / float64(len(connections)) * 10_000 / (1 << 20), Unit: "MiB",
		Baseline: float64(len(connections)) / time.Since(began).Seconds(), BaselineName: "connections opened per second",
	})
	return nil
}

// connect opens a connection, a session and a link, and waits until the emulator listens.
func connect(ctx context.Context, address string) (*amqp.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		connection, err := amqp.Dial(ctx, "amqp://"+address, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
		if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "refused") {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		session, err := connection.NewSession(ctx, nil)
		if err == nil {
			_, err = session.NewSender(ctx, stateTopic, nil)
		}
		if err != nil {
			_ = connection.Close()
			return nil, err
		}
		return connection, nil
	}
}

// benchReplicas measures the ingest with 1, 2 and 4 heartbeat replicas on one registry.
func (r *Report) benchReplicas(ctx context.Context, s *system) error {
	var alone float64
	for replicas := 1; replicas <= 4; replicas *= 2 {
		for len(s.heartbeats) < replicas {
			if err := s.addHeartbeat(ctx); err != nil {
				return err
			}
		}
		run, err := s.ingest(ctx, "R"+strconv.Itoa(replicas), 10_000, scaled(6))
		if err != nil {
			return err
		}
		figure := Figure{Name: fmt.Sprintf("heartbeats ingested, 10,000 agents, replicas: %d", replicas), Value: run.rate, Unit: "/s"}
		if alone == 0 {
			alone = run.rate
		} else {
			figure.Baseline, figure.BaselineName = alone, "one replica, on the same cores"
		}
		r.Add(figure)
	}
	return nil
}
