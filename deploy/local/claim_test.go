package local

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const claimingDir = "LOCAL_TEST_CLAIMING"

// TestMain runs a process that claims a folder and never ends, if it is told to.
func TestMain(m *testing.M) {
	dir := os.Getenv(claimingDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	claim, err := Take(dir, time.Now())
	if err == nil {
		err = claim.Serves(&System{REST: "http://127.0.0.1:1"})
	}
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("claimed\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

// A process that crashes leaves no lock behind: the operating system has it.
func TestACrashLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), claimingDir+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "claimed\n" {
		t.Fatalf("the other process said %q: %v", line, err)
	}
	_, err = Take(dir, time.Now())
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.Running.PID != other.Process.Pid || inUse.Running.REST != "http://127.0.0.1:1" {
		t.Fatalf("while the other process has it: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	claim, err := Take(dir, time.Now())
	if err != nil {
		t.Fatalf("after a crash: %v", err)
	}
	if err := claim.Release(); err != nil {
		t.Error(err)
	}
}

// A system that fails to start gives the folder back.
func TestAFailedStartGivesTheFolderBack(t *testing.T) {
	dir := t.TempDir()
	if _, err := Start(t.Context(), Config{Dir: dir, AnyPorts: true, REST: "not an address"}); err == nil {
		t.Fatal("it started")
	}
	claim, err := Take(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Release(); err != nil {
		t.Error(err)
	}
}

// The log is appended to, and put aside when it has grown.
func TestTheLogIsAppendedToAndBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logName)
	write := func(text string) {
		t.Helper()
		claim, err := Take(dir, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		log, err := claim.OpenLog()
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.WriteString(text)
		if err = errors.Join(err, log.Close(), claim.Release()); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		content, _ := os.ReadFile(path)
		return string(content)
	}
	write("first\n")
	write("second\n")
	if got := read(path); got != "first\nsecond\n" {
		t.Fatalf("the log is %q", got)
	}
	large := strings.Repeat("x", logLimit)
	write(large)
	write("third\n")
	if read(path) != "third\n" || !strings.HasPrefix(read(path+".1"), "first\n") {
		t.Errorf("a large log was not put aside: %d bytes here, %d there", len(read(path)), len(read(path+".1")))
	}
}

// A key file that a crash left empty is no key.
func TestTheEnrolmentKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	key := func() string {
		t.Helper()
		path, err := enrolmentKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first := key()
	if first == "" || key() != first {
		t.Errorf("the key was %q and is %q", first, key())
	}
	if err := os.Truncate(filepath.Join(dir, keyName), 0); err != nil {
		t.Fatal(err)
	}
	if key() == "" {
		t.Error("an empty file stays the key")
	}
}
