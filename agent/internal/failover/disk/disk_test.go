package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

var list = failover.List{Etag: "e1", Servers: []failover.Server{{Name: "s1", Endpoint: "s1:443"}, {Name: "s2", Endpoint: "s2:443"}}}

func expect(t *testing.T, path string, want failover.List) {
	t.Helper()
	if got, err := Load(path); err != nil || !got.Equal(want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
}

func TestTheListSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	expect(t, path, failover.List{})
	for _, l := range []failover.List{list, {Etag: "e2", Servers: list.Servers[1:], LongestPause: 20 * time.Second}} {
		if err := Save(path, l); err != nil {
			t.Fatal(err)
		}
		expect(t, path, l)
	}
	if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", info.Mode())
	}
}

func TestDamageIsToldAndWrittenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	for name, c := range map[string]struct{ data, want string }{
		"empty":          {"", "damaged"},
		"torn":           {`{"version":1,"etag":"e1","serv`, "damaged"},
		"zeros":          {"\x00\x00\x00\x00", "damaged"},
		"more after it":  {`{"version":1,"etag":"e","servers":[{"endpoint":"a"}]} {}`, "damaged"},
		"no version":     {`{"servers":[{"endpoint":"a"}]}`, "version 0"},
		"a later one":    {`{"version":2,"servers":[{"endpoint":"a"}]}`, "version 2"},
		"no servers":     {`{"version":1,"etag":"e","servers":[]}`, "names no server"},
		"no endpoint":    {`{"version":1,"etag":"e","servers":[{"name":"a"}]}`, "names no server"},
		"endless":        {strings.Repeat(" ", limit+1), "longer"},
		"something else": {`[1,2,3]`, "damaged"},
	} {
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err == nil || !got.Empty() || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if err := Save(path, list); err != nil {
			t.Fatal(err)
		}
		expect(t, path, list)
	}
}

func TestFieldsOfALaterReleaseAreIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	data := `{"version":1,"etag":"e","mood":"good","servers":[{"name":"a","endpoint":"1","zone":"x"},{"name":"b","endpoint":"1"},{}]}`
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, path, failover.List{Etag: "e", Servers: []failover.Server{{Name: "a", Endpoint: "1"}}})
}

// failing is a file of which one step fails. It notes what was done.
type failing struct {
	file
	step  string
	steps *[]string
}

var errDisk = errors.New("the disk is broken")

func (f failing) did(step string, err error) error {
	*f.steps = append(*f.steps, step)
	if step == f.step {
		return errDisk
	}
	return err
}

// Write implements io.Writer.
func (f failing) Write(p []byte) (int, error) {
	n, err := f.file.Write(p[:len(p)/2])
	if err := f.did("write", err); err != nil {
		return n, err
	}
	m, err := f.file.Write(p[len(p)/2:])
	return n + m, err
}

// Sync implements file.
func (f failing) Sync() error { return f.did("sync", f.file.Sync()) }

// Close implements io.Closer.
func (f failing) Close() error { return f.did("close", f.file.Close()) }

func TestADiskThatFailsLeavesTheListBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	next := failover.List{Etag: "e2", Servers: list.Servers[:1]}
	for _, step := range []string{"open", "write", "sync", "close"} {
		if err := Save(path, list); err != nil {
			t.Fatal(err)
		}
		err := save(path, next, func(path string, flag int) (file, error) {
			if step == "open" {
				return nil, errDisk
			}
			f, err := os.OpenFile(path, flag, 0o600)
			return failing{f, step, new([]string)}, err
		})
		if !errors.Is(err, errDisk) {
			t.Fatalf("%s: %v", step, err)
		}
		expect(t, path, list)
		if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
			t.Fatalf("%s: left behind: %v", step, left)
		}
	}
}

func TestTheListIsOnDiskBeforeItReplacesTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	var steps []string
	err := save(path, list, func(path string, flag int) (file, error) {
		f, err := os.OpenFile(path, flag, 0o600)
		return failing{f, "", &steps}, err
	})
	if err != nil || strings.Join(steps, " ") != "write sync close" {
		t.Fatalf("%v, %v", steps, err)
	}
}

func TestWhatCanNotBeSaved(t *testing.T) {
	folder := t.TempDir()
	if err := Save(filepath.Join(folder, "nowhere", "servers.json"), list); err == nil {
		t.Error("the folder does not exist")
	}
	if err := Save(folder, list); err == nil {
		t.Error("the path is a folder")
	}
	path := filepath.Join(folder, "servers.json")
	for name, l := range map[string]failover.List{
		"no server": {Etag: "e"},
		"too long":  {Etag: strings.Repeat("e", limit), Servers: list.Servers},
	} {
		if err := Save(path, l); err == nil {
			t.Error(name)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("something was written")
	}
}

func FuzzParse(f *testing.F) {
	whole, err := encode(list)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"version":1,"etag":"e","servers":[{"name":"a","endpoint":"1"},{"name":"b","endpoint":"1"},{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parse(data)
		if err != nil {
			if !got.Empty() {
				t.Fatalf("%v, with %v", err, got)
			}
			return
		}
		if got.Empty() || !got.Equal(got.Clean()) {
			t.Fatalf("not clean: %v", got)
		}
		again, err := encode(got)
		if err != nil {
			return // escapes may make it longer than a file may be
		}
		if back, err := parse(again); err != nil || !back.Equal(got) {
			t.Fatalf("written and read again: %v, %v; want %v", back, err, got)
		}
	})
}
