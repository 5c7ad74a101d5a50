package agent

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/commandcenter/fleet/agent/internal/failover"
	"github.com/commandcenter/fleet/agent/internal/failover/disk"
)

// membership is what an agent of a cloud knows beyond a restart. Without a folder it is in memory only.
type membership struct {
	folder string
	lock   *flock.Flock // nil without a folder
	token  string       // empty for an agent on Service Bus, which has none
	list   failover.List
	// unread is why the list on disk can't be used; nil: it can, or there is none.
	unread error
}

// openMembership reads the folder, and makes the token if there is none. One agent of one process has the folder.
func openMembership(folder string, direct bool) (m *membership, err error) {
	m = &membership{folder: folder}
	if folder == "" {
		if direct {
			m.token, err = disk.NewToken()
		}
		return m, err
	}
	m.lock = flock.New(filepath.Join(folder, "state.lock"))
	mine, err := m.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("agent config: StateDir: %s can't be locked: %w", folder, err)
	}
	if !mine {
		return nil, fmt.Errorf("agent config: StateDir: %s is in use by another agent; give each agent a folder of its own", folder)
	}
	if direct {
		if m.token, err = disk.Token(filepath.Join(folder, "token")); err != nil {
			return nil, errors.Join(fmt.Errorf("agent: %w", err), m.close())
		}
	}
	m.list, m.unread = disk.Load(m.listPath())
	return m, nil
}

func (m *membership) listPath() string { return filepath.Join(m.folder, "control-servers.json") }

// save the list, if there is a folder.
func (m *membership) save(list failover.List) error {
	if m.folder == "" {
		return nil
	}
	return disk.Save(m.listPath(), list)
}

// close gives the folder back. There may be none.
func (m *membership) close() error {
	if m == nil || m.lock == nil {
		return nil
	}
	return m.lock.Unlock()
}
