package agent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// These tests stop a whole process, as an administrator, a debugger or a hypervisor does, and let it go on when it is too late
// for its command. The process is this test binary once more.

const (
	freezeBus  = "TEST_FREEZE_BUS"   // the connection string: this process is the agent that is stopped
	freezeAt   = "TEST_FREEZE_AT"    // the point at which it stops itself, once; empty: the test stops it
	freezeFile = "TEST_FREEZE_STATE" // its journal
)

// standStill is for how long a process is stopped: longer than a command from the bus may take from its arrival to its start.
const standStill = busPatience + time.Second

// freezer stops this process at one point, once.
type freezer struct {
	at   string
	done atomic.Bool
}

func (f *freezer) reached(point string) {
	if f.at != point || !f.done.CompareAndSwap(false, true) {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(200 * time.Millisecond) // the signal comes to another thread, a moment later
}

type freezingInbox struct {
	inbox
	*freezer
}

func (i freezingInbox) ReceiveMessages(ctx context.Context, n int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	messages, err := i.inbox.ReceiveMessages(ctx, n, o)
	if len(messages) > 0 {
		i.reached("received")
	}
	return messages, err
}

func (i freezingInbox) renew(ctx context.Context, m *azservicebus.ReceivedMessage) error {
	err := i.inbox.renew(ctx, m)
	i.reached("proven")
	return err
}

func (i freezingInbox) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error {
	err := i.inbox.CompleteMessage(ctx, m, o)
	i.reached("settled")
	return err
}

type freezingJournal struct {
	journal
	*freezer
}

func (j freezingJournal) begin(cmd *agentv1.Command, write bool, now time.Time) (*record, bool, error) {
	r, mine, err := j.journal.begin(cmd, write, now)
	if write {
		j.reached("recorded")
	}
	return r, mine, err
}

func (j freezingJournal) restarting(r *record) error {
	err := j.journal.restarting(r)
	j.reached("restarting")
	return err
}

// freezingMachine says what is started on it, and may stop while a write runs.
type freezingMachine struct {
	*simulated.Host
	*freezer
}

func (m freezingMachine) StartService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	fmt.Println("started", name)
	if name == "RemoteRegistry" {
		fmt.Println("held")
		time.Sleep(500 * time.Millisecond) // a slow write: the one behind it waits when the process stops
		m.reached("queued")
	}
	return nil, nil
}

// freezingAgent is the process that is stopped.
func freezingAgent(connectionString string) error {
	f := &freezer{at: os.Getenv(freezeAt)}
	bus, err := NewBus(BusConfig{ConnectionString: connectionString})
	if err != nil {
		return err
	}
	a, err := New(Config{
		Name: "BM-1", Bus: bus, HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}, JournalPath: os.Getenv(freezeFile),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Host: freezingMachine{simulated.New("BM-1", simulated.Options{
			AgentService: ownService, RestartAgent: func() { fmt.Println("started", ownService) },
		}), f},
	})
	if err != nil {
		return err
	}
	a.executor.journal = freezingJournal{a.executor.journal, f}
	a.wrapInbox = func(in inbox) inbox { return freezingInbox{in, f} }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-a.Ready()
		fmt.Println("ready", a.HTTPAddr())
	}()
	return a.Run(ctx)
}

// frozen is the other process, as its test sees it.
type frozen struct {
	t       *testing.T
	process *exec.Cmd
	lines   *bufio.Scanner
	addr    string // of its HTTP
	log     bytes.Buffer
}

func startFrozen(g *gateway, point string) *frozen {
	g.t.Helper()
	f := &frozen{t: g.t, process: exec.Command(os.Args[0])}
	f.process.Env = append(os.Environ(), freezeBus+"="+g.emulator.ConnectionString(), freezeAt+"="+point, freezeFile+"="+newPath(g.t))
	f.process.Stderr = &f.log
	out, err := f.process.StdoutPipe()
	if err == nil {
		err = f.process.Start()
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = f.process.Process.Kill(); _ = f.process.Wait() })
	f.lines = bufio.NewScanner(out)
	f.addr = strings.TrimPrefix(f.next("ready"), "ready ")
	return f
}

// next is the next line that begins so.
func (f *frozen) next(prefix string) string {
	f.t.Helper()
	for f.lines.Scan() {
		if strings.HasPrefix(f.lines.Text(), prefix) {
			return f.lines.Text()
		}
	}
	f.t.Fatalf("the agent ended: %s", f.log.String())
	return ""
}

// goesOn waits until the process has stopped itself, leaves it so for too long, and lets it go on.
func (f *frozen) goesOn(still time.Duration) {
	f.t.Helper()
	eventually(f.t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.process.Process.Pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(after, "T")
	})
	time.Sleep(still) // it is what is tested: nothing waits for it
	f.signal(syscall.SIGCONT)
}

func (f *frozen) signal(s os.Signal) {
	if err := f.process.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// ends tells the agent to stop, which finishes what it had begun, and gives what it had started.
func (f *frozen) ends() (started []string) {
	f.t.Helper()
	f.signal(syscall.SIGTERM)
	for f.lines.Scan() {
		if name, is := strings.CutPrefix(f.lines.Text(), "started "); is {
			started = append(started, name)
		}
	}
	if err := f.process.Wait(); err != nil {
		f.t.Errorf("%v: %s", err, f.log.String())
	}
	return started
}

// expiring sends a command whose message lives as long as its budget, as gateways do.
func (g *gateway) expiring(cmd *agentv1.Command) {
	g.t.Helper()
	body, err := jsonEncoding.marshal(cmd)
	if err != nil {
		g.t.Fatal(err)
	}
	id, session, replySession, ttl := cmd.GetCommandId(), "BM-1", "gw-1", cmd.GetBudget().AsDuration()
	g.within(func(ctx context.Context) {
		if err := g.commands.SendMessage(ctx, &azservicebus.Message{
			Body: body, MessageID: &id, SessionID: &session, ReplyToSessionID: &replySession, TimeToLive: &ttl,
		}, nil); err != nil {
			g.t.Fatal(err)
		}
	})
}

// answered waits for the answer to a read that is sent now, so that all before it was taken.
func (g *gateway) answered() {
	g.t.Helper()
	read := command()
	g.send(read, "BM-1", jsonEncoding)
	for g.reply().GetCommandId() != read.GetCommandId() {
	}
}

func TestI24_AProcessThatStoodStillStartsNothingLate(t *testing.T) {
	idle := func(g *gateway, f *frozen, cmd *agentv1.Command) {
		f.signal(syscall.SIGSTOP)
		g.expiring(cmd)
		f.goesOn(standStill)
	}
	itself := func(g *gateway, f *frozen, cmd *agentv1.Command) {
		g.expiring(cmd)
		f.goesOn(standStill)
	}
	for _, c := range []struct {
		name, point string
		change      func(*agentv1.Command)
		stop        func(*gateway, *frozen, *agentv1.Command)
		want        []string
	}{
		{"never", "", startService("Spooler"), func(g *gateway, f *frozen, cmd *agentv1.Command) { g.expiring(cmd) }, []string{"Spooler"}},
		{"before it comes, long asked for", "", startService("Spooler"), func(g *gateway, f *frozen, cmd *agentv1.Command) {
			g.answered()
			time.Sleep(promptly) // so that the broker was asked for the next one long ago
			idle(g, f, cmd)
		}, nil},
		{"before it comes, just asked for", "", startService("Spooler"), func(g *gateway, f *frozen, cmd *agentv1.Command) {
			g.answered()
			idle(g, f, cmd)
		}, nil},
		{"once received", "received", startService("Spooler"), itself, nil},
		{"once recorded", "recorded", startService("Spooler"), itself, nil},
		{"once proven", "proven", startService("Spooler"), itself, nil},
		{"once settled", "settled", startService("Spooler"), itself, nil},
		{"while it waits for another write", "queued", startService("Spooler"), func(g *gateway, f *frozen, cmd *agentv1.Command) {
			g.send(command(startService("RemoteRegistry")), "BM-1", jsonEncoding)
			f.next("held")
			itself(g, f, cmd)
		}, nil},
		{"between the answer and a restart of the agent", "restarting", restartService(ownService), itself, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			f := startFrozen(g, c.point)
			c.stop(g, f, command(c.change, budget(2*time.Second)))
			g.answered()
			if started := f.ends(); fmt.Sprint(started) != fmt.Sprint(c.want) {
				t.Errorf("it started %q, want %q: %s", started, c.want, f.log.String())
			}
		})
	}
}

func TestI24_AProcessThatStoodStillStartsNothingLateOverHTTP(t *testing.T) {
	request := func(t *testing.T, f *frozen, expect string) net.Conn {
		body, err := jsonEncoding.marshal(command(startService("Spooler"), budget(2*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /agent/v1/commands HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", expect, len(body))
		if expect == "" {
			_, err = conn.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for _, c := range []struct {
		name, point string
		run         func(*testing.T, *frozen)
	}{
		{"before it is read, and its caller has gone", "", func(t *testing.T, f *frozen) {
			f.signal(syscall.SIGSTOP)
			conn := request(t, f, "")
			_ = conn.Close()
			f.goesOn(standStill)
		}},
		{"before it is read, and a proxy holds the connection", "", func(t *testing.T, f *frozen) {
			f.signal(syscall.SIGSTOP)
			conn := request(t, f, "Expect: 100-continue\r\n")
			f.goesOn(standStill)
			line, err := bufio.NewReader(conn).ReadString('\n') // only now is the body asked for; its sender has given up by then
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
				t.Errorf("%q, %v", line, err)
			}
			_ = conn.Close()
		}},
		{"once it is recorded", "recorded", func(t *testing.T, f *frozen) {
			conn := request(t, f, "")
			f.goesOn(standStill)
			answer, err := io.ReadAll(io.LimitReader(conn, 2048))
			_ = conn.Close()
			if err != nil || !strings.Contains(string(answer), "OUTCOME_EXPIRED") {
				t.Errorf("%s, %v", answer, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			f := startFrozen(g, c.point)
			c.run(t, f)
			g.answered()
			if started := f.ends(); started != nil {
				t.Errorf("it started %q: %s", started, f.log.String())
			}
		})
	}
}
