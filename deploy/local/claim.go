package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Names in a system's folder.
const (
	lockName     = "local.lock"
	instanceName = "local.json"
	logName      = "local.log"
	databaseName = "fleet.db"
	keyName      = "enrolment.key"
	journalsName = "journals"
	agentsName   = "agents"

	addressesName = "control-servers.json"
)

// Claim is the right to run a system in a folder. One process at a time has it; the operating system takes it back when the process
// ends, however it ends.
type Claim struct {
	dir      string
	lock     *flock.Flock
	instance Instance
}

// Instance is the system that runs in a folder.
type Instance struct {
	// PID is its process.
	PID int `json:"pid"`
	// StartedAt is when the process claimed the folder, by this machine's clock.
	StartedAt time.Time `json:"startedAt"`
	// REST is the gateway's base URL; empty while the system is starting.
	REST string `json:"rest,omitempty"`
	// GRPC is the gateway's address for callers over gRPC.
	GRPC string `json:"grpc,omitempty"`
	// Metrics are the addresses of the services' metrics.
	Metrics map[string]string `json:"metrics,omitempty"`
	// Bus is the emulator's connection string, for agents of your own. It holds no real key.
	Bus string `json:"serviceBus,omitempty"`
	// Log is the path of its log.
	Log string `json:"log,omitempty"`
}

// InUseError says that a system runs in the folder. Nothing was started, and nothing in the folder was touched.
type InUseError struct {
	Dir string
	// Running is that system; the zero value if it has not said anything of itself yet.
	Running Instance
}

func (e *InUseError) Error() string {
	if e.Running.PID == 0 {
		return fmt.Sprintf("a system is already starting in %s; nothing was touched", e.Dir)
	}
	where := "it is still starting"
	if e.Running.REST != "" {
		where = "REST " + e.Running.REST
	}
	return fmt.Sprintf("a system already runs in %s: process %d, since %s, %s; nothing was touched",
		e.Dir, e.Running.PID, e.Running.StartedAt.Local().Format(time.DateTime), where)
}

// Take claims the folder, which it makes if need be. An *InUseError says who has it. The caller releases the claim.
func Take(dir string, now time.Time) (*Claim, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Claim{dir: dir, lock: flock.New(filepath.Join(dir, lockName)), instance: Instance{PID: os.Getpid(), StartedAt: now}}
	mine, err := c.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%s can't be claimed: %w", dir, err)
	}
	if !mine {
		running, err := readInstance(dir)
		return nil, errors.Join(&InUseError{Dir: dir, Running: running}, err)
	}
	if err := c.publish(); err != nil {
		return nil, errors.Join(err, c.Release())
	}
	return c, nil
}

func readInstance(dir string) (running Instance, err error) {
	content, err := os.ReadFile(filepath.Join(dir, instanceName))
	if errors.Is(err, fs.ErrNotExist) {
		return running, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &running)
	}
	return running, err
}

// Serves says where the system is, in a file that the next start in this folder reads, and anyone may.
func (c *Claim) Serves(s *System) error {
	c.instance.REST, c.instance.GRPC, c.instance.Metrics, c.instance.Bus = s.REST, s.GRPC, s.Metrics, s.Bus
	return c.publish()
}

func (c *Claim) publish() error {
	content, err := json.MarshalIndent(c.instance, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(c.instancePath(), append(content, '\n'), 0o644)
}

func (c *Claim) instancePath() string { return filepath.Join(c.dir, instanceName) }

// Release gives the folder up.
func (c *Claim) Release() error {
	err := os.Remove(c.instancePath())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.lock.Unlock())
}

// Clear removes what earlier systems left in the folder, and nothing that it does not know. The database goes first: agents that keep
// their tokens register with a new one, but new tokens are strangers to an old one.
func (c *Claim) Clear() error {
	for _, name := range []string{
		databaseName, databaseName + "-wal", databaseName + "-shm", agentsName, journalsName, addressesName, keyName, logName, logName + ".1",
	} {
		if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
			return fmt.Errorf("the folder could not be cleared, and may be half empty; clear it again: %w", err)
		}
	}
	return nil
}

// logLimit is the size, in bytes, from which a start puts the log aside. One that was put aside before is lost.
const logLimit = 16 << 20

// OpenLog opens the folder's log, to append to it.
func (c *Claim) OpenLog() (*os.File, error) {
	path := filepath.Join(c.dir, logName)
	if info, err := os.Stat(path); err == nil && info.Size() >= logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	c.instance.Log = path
	if err := c.publish(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// replaceFile puts a whole file in the place of another.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	next := path + ".new"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}
