package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNobody says that no control server is eligible. The lists stay as they are: an agent is never given an empty one.
var ErrNobody = errors.New("no control server is eligible; the lists stay as they are")

// Directory is the servers that lists name, in one version. Replicas with the same directory derive the same lists.
type Directory struct {
	Version int64 // greater with every change of what follows; 0: there was none yet
	servers []Server
	ids     []int64  // theirs
	hashes  []uint64 // of their names
}

// NewDirectory keeps servers by id. The error names what is wrong with them, and is ErrNobody if there are none.
func NewDirectory(version int64, servers []Server) (Directory, error) {
	if len(servers) == 0 {
		return Directory{}, ErrNobody
	}
	d := Directory{Version: version, servers: slices.Clone(servers)}
	slices.SortFunc(d.servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	for i, s := range d.servers {
		switch {
		case s.ID < 1:
			return Directory{}, fmt.Errorf("control server %q: id must be positive, is %d", s.Name, s.ID)
		case i > 0 && s.ID == d.servers[i-1].ID:
			return Directory{}, fmt.Errorf("control servers %q and %q: id %d is used twice", d.servers[i-1].Name, s.Name, s.ID)
		case s.Weight < 1 || s.Weight > MaxWeight:
			return Directory{}, fmt.Errorf("control server %q: weight must be 1 to %d, is %d", s.Name, MaxWeight, s.Weight)
		}
		d.ids, d.hashes = append(d.ids, s.ID), append(d.hashes, Hash(s.Name))
	}
	return d, nil
}

// Servers are those of the directory, by id.
func (d Directory) Servers() []Server { return slices.Clone(d.servers) }

// Server finds one by its id.
func (d Directory) Server(id int64) (Server, bool) {
	if at := d.position(id); at != none {
		return d.servers[at], true
	}
	return Server{}, false
}

// none is no server, where a position is wanted.
const none int32 = -1

// position is where a server is in the directory.
func (d Directory) position(id int64) int32 {
	if at, found := slices.BinarySearch(d.ids, id); found {
		return int32(at)
	}
	return none
}

func (d Directory) id(position int32) int64 {
	if position == none {
		return 0
	}
	return d.ids[position]
}
