package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = time.Minute

// started is one run of the command.
type started struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan struct{}
	err   error // once it has ended

	mu  sync.Mutex
	out bytes.Buffer
}

func (s *started) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *started) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// start runs the command on free ports.
func start(t *testing.T, dir string, args ...string) *started {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &started{t: t, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = run(ctx, append([]string{"-data", dir, "-ports", "any", "-rest", "127.0.0.1:0", "-control-servers", "1"}, args...), s)
	}()
	t.Cleanup(func() { stop(); <-s.ended })
	return s
}

// serving waits until it says where it is.
func (s *started) serving() *started {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(s.said(), "Ctrl-C"); time.Sleep(5 * time.Millisecond) {
		select {
		case <-s.ended:
			s.t.Fatalf("it ended: %v", s.err)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it does not serve; it said %q", s.said())
		}
	}
	return s
}

// finish ends it, and gives its error.
func (s *started) finish() error {
	s.stop()
	<-s.ended
	return s.err
}

// files are a folder's, with their content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A second start in the folder of a running system says where that one is and what to type, and leaves everything as it is: the log that
// the first one writes, the enrolment key that agents have read, the database.
func TestASecondStartTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir).serving()
	before := files(t, dir)
	for _, args := range [][]string{nil, {"-fresh"}} {
		second := start(t, dir, args...)
		select {
		case <-second.ended:
		case <-time.After(patience):
		}
		if err := second.finish(); err == nil {
			t.Fatalf("%v: a second system ran in the folder", args)
		}
		message := second.err.Error()
		for _, told := range []string{"http://127.0.0.1:", "process " + strconv.Itoa(os.Getpid()), "since 20", "make run ARGS=", "nothing was touched"} {
			if !strings.Contains(message, told) {
				t.Errorf("%v: it does not say %q: %s", args, told, message)
			}
		}
	}
	after := files(t, dir)
	for path, content := range before {
		now, there := after[path]
		switch filepath.Base(path) {
		case "enrolment.key", "local.json", "token", "local.lock":
			if now != content {
				t.Errorf("%s changed from %q to %q", path, content, now)
			}
		default: // the first one goes on writing
			if !there || filepath.Base(path) == "local.log" && !strings.HasPrefix(now, content) {
				t.Errorf("%s was emptied or removed", path)
			}
		}
	}
	if err := first.finish(); err != nil {
		t.Error(err)
	}
}

// The next system in a folder goes on where the last one ended: with its log, its key and what was decided; and says what it found.
func TestTheNextStartKeepsWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, dir).serving().finish(); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	next := start(t, dir).serving()
	if said := next.said(); !strings.Contains(said, "7 agents") || !strings.Contains(said, "6 accepted, 1 pending") || !strings.Contains(said, "6 servers") {
		t.Errorf("it does not say what it found: %s", said)
	}
	if err := next.finish(); err != nil {
		t.Fatal(err)
	}
	after := files(t, dir)
	key, log := filepath.Join(dir, "enrolment.key"), filepath.Join(dir, "local.log")
	if before[key] == "" || after[key] != before[key] {
		t.Errorf("the enrolment key was %q and is %q", before[key], after[key])
	}
	if before[log] == "" || !strings.HasPrefix(after[log], before[log]) {
		t.Error("the log of the run before is gone")
	}
}

// A fresh start removes what systems left, and nothing else that lies in the folder.
func TestAFreshStartBeginsWithNothing(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, dir).serving().finish(); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := start(t, dir, "-fresh").serving()
	if said := fresh.said(); strings.Contains(said, "found") {
		t.Errorf("it found something: %s", said)
	}
	after := files(t, dir)
	for path, content := range before {
		if name := filepath.Base(path); (name == "enrolment.key" || name == "token") && after[path] == content {
			t.Errorf("%s is still there", path)
		}
	}
	if after[mine] != "mine" {
		t.Error("a file that is no system's was removed")
	}
}
