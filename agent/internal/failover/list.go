package failover

import (
	"slices"
	"time"
)

// A published pause is within these.
const leastPause, mostPause = 100 * time.Millisecond, 10 * time.Minute

// Server is a control server, or a registration endpoint, which has no name.
type Server struct {
	Name     string
	Endpoint string // as the agent's transport understands it
}

// List is an agent's failover list. The first server is its primary. The zero value is no list.
type List struct {
	Etag    string
	Servers []Server
	// LongestPause bounds the agent's pauses while no control server takes its heartbeat, as the control plane publishes it; 0: it says nothing.
	LongestPause time.Duration
}

// Clean is the list without servers that can't be called, and without repetitions of an endpoint. It may be empty, which means
// that there is no list in it.
func (l List) Clean() List {
	seen := make(map[string]bool, len(l.Servers))
	kept := make([]Server, 0, len(l.Servers))
	for _, s := range l.Servers {
		if s.Endpoint != "" && !seen[s.Endpoint] {
			seen[s.Endpoint] = true
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return List{}
	}
	if l.LongestPause < leastPause || l.LongestPause > mostPause {
		l.LongestPause = 0 // what no control plane says on purpose
	}
	return List{Etag: l.Etag, Servers: kept, LongestPause: l.LongestPause}
}

// Empty tells that there is no list.
func (l List) Empty() bool { return len(l.Servers) == 0 }

// Equal tells whether two lists are the same, etag and all.
func (l List) Equal(other List) bool {
	return l.Etag == other.Etag && l.LongestPause == other.LongestPause && slices.Equal(l.Servers, other.Servers)
}

func (l List) index(s Server) int { return slices.Index(l.Servers, s) }

func (l List) hasEndpoint(endpoint string) bool {
	return slices.ContainsFunc(l.Servers, func(s Server) bool { return s.Endpoint == endpoint })
}
