// Package disk keeps what an agent must know after a restart: its token, which it is known by, and its failover list, since none of
// its control servers may be there to tell it. One agent of one process has the files.
//
// The list is one JSON document with a version. Files are replaced as a whole: after a crash there is the content before or the one
// after. A list that can't be read costs nothing but a registration, so it stops nobody; the next list is written over it. A token
// that can't be read stops the agent: with another one it would be another machine.
package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

const (
	version = 1
	limit   = 1 << 20 // bytes of a file; a thousand servers take a tenth
)

// document is the file.
type document struct {
	Version int      `json:"version"`
	Etag    string   `json:"etag"`
	Servers []server `json:"servers"`
	// LongestPauseMs is absent where the control plane published none, and in files of releases before.
	LongestPauseMs int64 `json:"longestPauseMs,omitempty"`
}

type server struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
}

// Load reads the list. There is none, and no error, if there is no file. An error says that the file can't be used; the agent does
// without it.
func Load(path string) (failover.List, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return failover.List{}, nil
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	var list failover.List
	if err == nil {
		list, err = parse(data)
	}
	if err != nil {
		return failover.List{}, fmt.Errorf("the failover list %s can't be used: %w; the agent registers instead, and writes it anew", path, err)
	}
	return list, nil
}

func parse(data []byte) (failover.List, error) {
	if len(data) > limit {
		return failover.List{}, fmt.Errorf("it is longer than %d bytes", limit)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return failover.List{}, fmt.Errorf("it is damaged: %w", err)
	}
	if d.Version != version {
		return failover.List{}, fmt.Errorf("it has version %d, and this agent reads version %d", d.Version, version)
	}
	list := failover.List{Etag: d.Etag, LongestPause: time.Duration(d.LongestPauseMs) * time.Millisecond}
	for _, s := range d.Servers {
		list.Servers = append(list.Servers, failover.Server(s))
	}
	if list = list.Clean(); list.Empty() {
		return failover.List{}, errors.New("it is damaged: it names no server with an endpoint")
	}
	return list, nil
}

// Save has the list on disk when it returns nil. Otherwise the one before is still there. The file's folder must exist; beside it
// there is, for moments, a copy (.new).
func Save(path string, list failover.List) error {
	return save(path, list, openPrivate)
}

func save(path string, list failover.List, open opener) error {
	data, err := encode(list)
	if err == nil {
		err = replace(path, data, open)
	}
	if err != nil {
		return fmt.Errorf("the failover list %s can't be written, and is left as it was: %w", path, err)
	}
	if err := SyncFolder(path); err != nil {
		return fmt.Errorf("the failover list %s is written, and may not survive a crash: %w", path, err)
	}
	return nil
}

func encode(list failover.List) ([]byte, error) {
	list = list.Clean()
	if list.Empty() {
		return nil, errors.New("it names no server with an endpoint")
	}
	d := document{Version: version, Etag: list.Etag, LongestPauseMs: list.LongestPause.Milliseconds()}
	for _, s := range list.Servers {
		d.Servers = append(d.Servers, server(s))
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err == nil && len(data)+1 > limit {
		err = fmt.Errorf("it is longer than %d bytes", limit)
	}
	return append(data, '\n'), err
}

func write(path string, data []byte, open opener) error {
	f, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncFolder has a rename of the file on disk. Windows has that in its own journal, and can't be asked.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
