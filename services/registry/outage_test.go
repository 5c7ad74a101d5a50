package registry_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "modernc.org/sqlite"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry"
)

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 30 * time.Second

// stopLimit is how long a stop may take, whatever the database does, with the margin of a busy machine.
const stopLimit = 15 * time.Second

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

// freeAddress is one that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// mute takes connections and never says a word, as a database server that hangs.
func mute(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var held []net.Conn
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range held {
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

// lines is a log that may be read while it is written.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(text)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buffer.String(), text)
}

// ask asks the admin listener.
func ask(admin, path string) (status int, body string) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// absent are databases that cannot be used at the start, each in its way; the function brings it back where that can be.
func absent(t *testing.T) map[string]struct {
	url  string
	back func()
} {
	file := filepath.Join(t.TempDir(), "fleet.db")
	holder, err := sql.Open("sqlite", "file:"+file+"?_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		t.Fatal(err)
	}
	holder.SetMaxOpenConns(1)
	if _, err := holder.Exec("CREATE TABLE Held (K INTEGER)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close() })
	return map[string]struct {
		url  string
		back func()
	}{
		"never answers": {"sqlserver://u:p@" + mute(t) + "?database=d&encrypt=true", nil},
		"refuses":       {"sqlserver://u:p@" + freeAddress(t) + "?database=d&encrypt=true", nil},
		"is locked":     {"sqlite:" + file, func() { _ = holder.Close() }},
	}
}

// A database that is not there yet ends nothing: the admin listener says so, the log does each time, and a stop is a stop.
func TestTheStartWaitsForTheDatabase(t *testing.T) {
	for what, row := range absent(t) {
		t.Run(what, func(t *testing.T) {
			log := &lines{}
			cfg := registry.DefaultConfig()
			cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", freeAddress(t)
			cfg.Database.URL, cfg.Database.Migrate = config.Secret(row.url), strings.HasPrefix(row.url, "sqlite:")
			cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
			ready, ended := make(chan registry.Endpoints, 1), make(chan error, 1)
			cfg.Ready = func(at registry.Endpoints) { ready <- at }
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { ended <- registry.Run(ctx, cfg) }()
			eventually(t, "it lives", func() bool { status, _ := ask(cfg.Admin.Listen, "/livez"); return status == 200 })
			eventually(t, "readiness says why it waits", func() bool {
				status, body := ask(cfg.Admin.Listen, "/readyz")
				return status == 503 && strings.Contains(body, "waits for the database since ")
			})
			eventually(t, "the log says so", func() bool { return log.count("the database cannot be used yet; it is tried again") >= 1 })
			if log.count("u:p@") > 0 {
				t.Error("the log shows the password")
			}
			if row.back != nil {
				row.back()
				select {
				case <-ready:
				case err := <-ended:
					t.Fatal(err)
				case <-time.After(patience):
					t.Fatal("it does not start once the database is back")
				}
			}
			began := time.Now()
			stop()
			select {
			case err := <-ended:
				if took := time.Since(began); err != nil || took > stopLimit {
					t.Errorf("stopped after %s: %v", took, err)
				}
			case <-time.After(patience):
				t.Fatal("it does not stop")
			}
		})
	}
}

// A stop ends also while the database holds up calls and probes.
func TestAStopEndsWhileTheDatabaseHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	log := &lines{}
	cfg := registry.DefaultConfig()
	cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Database.URL, cfg.Database.Migrate = config.Secret("sqlite:"+path), true
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	ready, ended := make(chan registry.Endpoints, 1), make(chan error, 1)
	cfg.Ready = func(at registry.Endpoints) { ready <- at }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { ended <- registry.Run(ctx, cfg) }()
	var at registry.Endpoints
	select {
	case at = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	holder, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	conn, err := holder.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	client, err := grpc.NewClient(at.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	calls, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make(chan error, 8)
	for range cap(answers) { // each waits for the one that writes, which waits for the lock
		go func() {
			_, err := registryv1.NewAgentRegistryClient(client).RecordHeartbeats(calls, beats("BM-1"))
			answers <- err
		}()
	}
	<-answers // one was refused: the others wait
	began := time.Now()
	stop()
	select {
	case <-ended: // whatever was left behind is said
		if took := time.Since(began); took > stopLimit {
			t.Errorf("stopped after %s", took)
		}
		t.Logf("stopped within %s", time.Since(began).Round(time.Millisecond))
	case <-time.After(patience):
		t.Fatal("it does not stop")
	}
}

// What ends migrate is its time, or a stop.
func TestMigrateEndsWithItsTime(t *testing.T) {
	cfg := registry.DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Database.URL = config.Secret("sqlserver://u:p@" + mute(t) + "?database=d&encrypt=true")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := registry.Migrate(ctx, cfg)
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "database.url: ") || took > stopLimit {
		t.Errorf("after %s: %v", took, err)
	}
}

// A file that is no database ends migrate at once: waiting does not mend it.
func TestMigrateDoesNotWaitForWhatNeverMends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := registry.DefaultConfig()
	log := &lines{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	cfg.Database.URL = config.Secret("sqlite:" + path)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := registry.Migrate(ctx, cfg)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "the file is no database") || log.count("it is tried again") > 0 {
		t.Errorf("%v", err)
	}
}

// While nothing can be written, reads are answered, a write says why not, and readiness stays.
func TestADatabaseWithoutWritesIsSaidPerRequest(t *testing.T) {
	path, admin := filepath.Join(t.TempDir(), "fleet.db"), freeAddress(t)
	c := serve(t, func(cfg *registry.Config) { cfg.Database.URL, cfg.Admin.Listen = config.Secret("sqlite:"+path), admin })
	c.record(t, beats("BM-1"))
	agent := c.read(t, "BM-1")
	other, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil { // another process holds the lock
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.agents.RejectAgent(ctx, &registryv1.RejectAgentRequest{Name: "BM-1", Etag: agent.GetEtag(), Actor: "alice"})
	refused(t, err, fault.DatabaseReadOnly, "holds the lock")
	if c.read(t, "BM-1").GetEtag() != agent.GetEtag() {
		t.Error("something was changed")
	}
	eventually(t, "it is told", func() bool {
		status, text := ask(admin, "/readyz?verbose")
		if status != 200 {
			t.Fatalf("not ready though reads work: %s", text)
		}
		_, metrics := ask(admin, "/metrics")
		return strings.Contains(text, "[-] database writes: writes do not work, since ") && strings.Contains(text, "[+] database reads: ok") &&
			strings.Contains(metrics, `commandcenter_check_passed{check="database writes",service="registry"} 0`) && strings.Contains(metrics, `commandcenter_check_passed{check="database reads",service="registry"} 1`)
	})
}
