package cloud

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/textrule"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Candidate is a control server that asks to join, as each does when it starts.
type Candidate struct {
	Name      string
	Endpoints []string
	Version   string
	Protocols Protocols
}

// Admission is how a candidate joins.
type Admission struct {
	ID       int64   // the member it is, or whose place it takes; 0: it is new
	Replaces []int64 // members to delete: long silent, and it answers at their endpoints now
}

// Join decides whether a candidate may join. A name or an endpoint is held for the eviction grace after the last renewal. Within it only
// the same server is welcome back: the same name, at one of its endpoints. After it the name's new holder takes the old one's place, with
// what operators decided about it; and a silent server whose endpoint another answers at is replaced, unless it is in maintenance.
func (m Membership) Join(c Candidate) (Admission, error) {
	if refusal := c.check(); refusal != nil {
		return Admission{}, refusal
	}
	if refusal := m.checkNew(c); refusal != nil {
		return Admission{}, refusal
	}
	var admitted Admission
	for _, s := range m.Members {
		named := spelling.Same(s.Name, c.Name)
		shared := sharedEndpoint(s.Endpoints, c.Endpoints)
		switch {
		case named && s.Present && shared == "":
			return Admission{}, refuse(NameTaken, "name", s.Name, "control server %q is at %s; give this one a name of its own, or stop the other and wait until it is evicted",
				s.Name, strings.Join(s.Endpoints, ", "))
		case named:
			admitted.ID = s.ID
			continue // it is checked against the others only
		case shared != "" && (s.Present || s.Mode == ModeMaintenance):
			return Admission{}, refuse(EndpointTaken, "endpoints", s.Name, "control server %q is at %s; give this one an endpoint of its own, or remove the other",
				s.Name, shared)
		case shared != "":
			admitted.Replaces = append(admitted.Replaces, s.ID)
		}
		if s.Present && !s.Protocols.overlap(c.Protocols) {
			return Admission{}, refuse(ProtocolsApart, "protocols", s.Name, "control server %q speaks protocol versions %d to %d and this one %d to %d; agents need a version that all speak, so upgrade through one that overlaps both",
				s.Name, s.Protocols.Min, s.Protocols.Max, c.Protocols.Min, c.Protocols.Max)
		}
	}
	return admitted, nil
}

// checkNew checks what only a control server that is not known yet must keep. One that has a row goes on.
func (m Membership) checkNew(c Candidate) error {
	if slices.ContainsFunc(m.Members, func(s Standing) bool { return spelling.Same(s.Name, c.Name) }) {
		return nil
	}
	if _, err := enrollment.ParseNewName(c.Name); err != nil {
		return refuse(Invalid, "name", "", "name %v", err)
	}
	for _, endpoint := range c.Endpoints {
		if err := textrule.Line(endpoint); err != nil {
			return refuse(Invalid, "endpoints", "", "endpoint %+q %v", endpoint, err)
		}
	}
	if err := textrule.Line(c.Version); err != nil {
		return refuse(Invalid, "version", "", "version %v", err)
	}
	return nil
}

func (c Candidate) check() error {
	if _, err := enrollment.ParseName(c.Name); err != nil {
		return refuse(Invalid, "name", "", "name %v", err)
	}
	if len(c.Endpoints) == 0 {
		return refuse(Invalid, "endpoints", "", "endpoints are required: the addresses at which agents reach this control server")
	}
	for i, endpoint := range c.Endpoints {
		if endpoint == "" || strings.ContainsFunc(endpoint, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return refuse(Invalid, "endpoints", "", "endpoint %q must be an address without blanks", endpoint)
		}
		if sharedEndpoint(c.Endpoints[:i], c.Endpoints[i:i+1]) != "" {
			return refuse(Invalid, "endpoints", "", "endpoint %q is given twice", endpoint)
		}
	}
	if c.Protocols.Min < 1 || c.Protocols.Max < c.Protocols.Min {
		return refuse(Invalid, "protocols", "", "protocols %d to %d are no range of positive versions", c.Protocols.Min, c.Protocols.Max)
	}
	return nil
}

// sharedEndpoint is the first of held that is also asked for; hosts have no case.
func sharedEndpoint(held, asked []string) string {
	for _, endpoint := range held {
		if slices.ContainsFunc(asked, func(other string) bool { return strings.EqualFold(endpoint, other) }) {
			return endpoint
		}
	}
	return ""
}

// Removable tells why a member may not be removed; nil: it may.
func (s Standing) Removable() error {
	switch {
	case s.State == Normal || s.State == Suspect:
		return refuse(InUse, "", s.Name, "control server %q is %s; put it into maintenance first", s.Name, s.State)
	case s.State == Evicted && s.Assigned > 0:
		return refuse(InUse, "", s.Name, "control server %q is still the primary of %d agents; wait for the next partition, or put it into maintenance", s.Name, s.Assigned)
	case s.State == Draining && max(s.Assigned, s.Connected) > 0:
		return refuse(InUse, "", s.Name, "control server %q is draining and still has %d agents; wait until they have left or the drain is over",
			s.Name, max(s.Assigned, s.Connected))
	}
	return nil
}

// Reason is why a request was refused.
type Reason int

// The reasons.
const (
	Invalid        Reason = iota + 1 // a field breaks its rule
	NameTaken                        // another control server has the name
	EndpointTaken                    // another control server has an endpoint
	ProtocolsApart                   // no protocol version in common with a server that is present
	InUse                            // agents still depend on it
)

// Refusal says why a control server may not join or be removed.
type Refusal struct {
	Reason Reason
	Field  string // of the candidate; empty: none is at fault
	Holder string // the control server in the way; empty: none is
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

func refuse(reason Reason, field, holder, format string, args ...any) error {
	return &Refusal{Reason: reason, Field: field, Holder: holder, Detail: fmt.Sprintf(format, args...)}
}
