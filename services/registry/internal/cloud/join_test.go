package cloud

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func candidate(id int64) Candidate {
	s := server(id)
	return Candidate{Name: s.Name, Endpoints: s.Endpoints, Version: "1.0", Protocols: Protocols{1, 2}}
}

func with[T any](item T, change func(*T)) T { change(&item); return item }

func TestJoin(t *testing.T) {
	maintained := with(silent(5, time.Hour), func(m *Member) { m.Mode, m.Listing = ModeMaintenance, Listing{} })
	members := []Member{member(1), silent(2, time.Minute), silent(3, time.Hour), maintained, member(6), member(7), member(8)}
	members[2].Protocols = Protocols{7, 9} // gone: it does not count
	cloud := Judge(members, now, limits)
	for _, c := range []struct {
		what string
		Candidate
		want   Admission
		reason Reason
		field  string
		holder string
		says   string
	}{
		{what: "new", Candidate: candidate(9)},
		{what: "restarts before its lease lapsed", Candidate: candidate(1), want: Admission{ID: 1}},
		{what: "restarts within grace", Candidate: candidate(2), want: Admission{ID: 2}},
		{what: "comes back after grace", Candidate: candidate(3), want: Admission{ID: 3}},
		{what: "comes back in maintenance", Candidate: candidate(5), want: Admission{ID: 5}},
		{what: "another spelling is the same", Candidate: with(candidate(2), func(c *Candidate) { c.Name, c.Endpoints = "CONTROL-2", []string{"Control-2:8443"} }), want: Admission{ID: 2}},
		{what: "with one more endpoint", Candidate: with(candidate(2), func(c *Candidate) { c.Endpoints = []string{"b:1", "control-2:8443"} }), want: Admission{ID: 2}},
		{
			what: "name of a live one", Candidate: with(candidate(1), func(c *Candidate) { c.Endpoints = []string{"other:1"} }),
			reason: NameTaken, field: "name", holder: "control-1", says: "control-1:8443",
		},
		{
			what: "name of a suspect", Candidate: with(candidate(2), func(c *Candidate) { c.Name, c.Endpoints = "Control-2", []string{"other:1"} }),
			reason: NameTaken, field: "name", holder: "control-2",
		},
		{what: "name of one long gone", Candidate: with(candidate(3), func(c *Candidate) { c.Endpoints = []string{"other:1"} }), want: Admission{ID: 3}},
		{
			what: "endpoint of a live one", Candidate: with(candidate(9), func(c *Candidate) { c.Endpoints = []string{"own:1", "CONTROL-1:8443"} }),
			reason: EndpointTaken, field: "endpoints", holder: "control-1", says: "control-1:8443",
		},
		{
			what: "endpoint of a suspect", Candidate: with(candidate(9), func(c *Candidate) { c.Endpoints = server(2).Endpoints }),
			reason: EndpointTaken, field: "endpoints", holder: "control-2",
		},
		{
			what: "restarts with another's endpoint", Candidate: with(candidate(2), func(c *Candidate) { c.Endpoints = append(server(2).Endpoints, server(1).Endpoints...) }),
			reason: EndpointTaken, field: "endpoints", holder: "control-1",
		},
		{what: "endpoint of one long gone", Candidate: with(candidate(9), func(c *Candidate) { c.Endpoints = server(3).Endpoints }), want: Admission{Replaces: []int64{3}}},
		{
			what: "endpoint of one in maintenance", Candidate: with(candidate(9), func(c *Candidate) { c.Endpoints = server(5).Endpoints }),
			reason: EndpointTaken, field: "endpoints", holder: "control-5",
		},
		{what: "protocols touch", Candidate: with(candidate(9), func(c *Candidate) { c.Protocols = Protocols{2, 5} })},
		{
			what: "protocols apart", Candidate: with(candidate(9), func(c *Candidate) { c.Protocols = Protocols{3, 5} }),
			reason: ProtocolsApart, field: "protocols", holder: "control-1", says: "speaks protocol versions 1 to 2 and this one 3 to 5",
		},
		{
			what: "restarts, apart from others", Candidate: with(candidate(1), func(c *Candidate) { c.Protocols = Protocols{3, 5} }),
			want: Admission{}, reason: ProtocolsApart, field: "protocols", holder: "control-2",
		},
	} {
		got, err := cloud.Join(c.Candidate)
		var refusal *Refusal
		if errors.As(err, &refusal) != (c.reason != 0) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v %v", c.what, got, err)
			continue
		}
		if refusal != nil && (refusal.Reason != c.reason || refusal.Field != c.field || refusal.Holder != c.holder ||
			!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.holder)) {
			t.Errorf("%s: %+v", c.what, refusal)
		}
	}
}

// The whole cloud was down for long, which is a freeze, and starts anew elsewhere.
func TestJoinAfterAFreezeAtOtherEndpoints(t *testing.T) {
	cloud := Judge([]Member{silent(1, time.Hour), silent(2, time.Hour)}, now, limits)
	got, err := cloud.Join(with(candidate(1), func(c *Candidate) { c.Endpoints = []string{"elsewhere:1"} }))
	if !cloud.Frozen() || err != nil || got.ID != 1 {
		t.Errorf("frozen %v: %+v %v", cloud.Frozen(), got, err)
	}
}

func TestI17_JoinNamesTheFieldAtFault(t *testing.T) {
	for field, bad := range map[string][]Candidate{
		"name": {
			with(candidate(1), func(c *Candidate) { c.Name = " " }),
			with(candidate(1), func(c *Candidate) { c.Name = strings.Repeat("x", 129) }),
		},
		"endpoints": {
			with(candidate(1), func(c *Candidate) { c.Endpoints = nil }),
			with(candidate(1), func(c *Candidate) { c.Endpoints = []string{"a:1", ""} }),
			with(candidate(1), func(c *Candidate) { c.Endpoints = []string{"a:1 "} }),
			with(candidate(1), func(c *Candidate) { c.Endpoints = []string{"a:1", "b:1", "A:1"} }),
		},
		"protocols": {
			with(candidate(1), func(c *Candidate) { c.Protocols = Protocols{} }),
			with(candidate(1), func(c *Candidate) { c.Protocols = Protocols{3, 2} }),
		},
	} {
		for _, c := range bad {
			_, err := Membership{}.Join(c)
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != Invalid || refusal.Field != field || !strings.Contains(err.Error(), strings.TrimSuffix(field, "s")) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestRemovable(t *testing.T) {
	standing := func(state State, assigned, connected int) Standing {
		return Standing{Member: Member{Server: server(1), Assigned: assigned, Connected: connected}, State: state}
	}
	for says, cases := range map[string][]Standing{
		"is normal; put it into maintenance first":  {standing(Normal, 0, 0)},
		"is suspect; put it into maintenance first": {standing(Suspect, 0, 0)},
		"still the primary of 3 agents":             {standing(Evicted, 3, 0)},
		"is draining and still has 3 agents":        {standing(Draining, 3, 0), standing(Draining, 0, 3)},
		"":                                          {standing(Evicted, 0, 3), standing(Draining, 0, 0), standing(Maintenance, 0, 3)},
	} {
		for _, s := range cases {
			err := s.Removable()
			var refusal *Refusal
			if (err == nil) != (says == "") || err != nil && (!errors.As(err, &refusal) || refusal.Reason != InUse || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s, %d assigned, %d connected: %v", s.State, s.Assigned, s.Connected, err)
			}
		}
	}
}
