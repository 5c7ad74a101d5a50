package authn

import "testing"

func TestIncludes(t *testing.T) {
	includes := map[Role][]Role{
		Viewer: {Viewer}, Operator: {Viewer, Operator}, Admin: {Viewer, Operator, Admin},
		Heartbeat: {Heartbeat}, Gateway: {Gateway}, Availability: {Availability},
	}
	for _, held := range roles {
		for _, needed := range roles {
			want := false
			for _, included := range includes[held] {
				want = want || included == needed
			}
			if held.Includes(needed) != want {
				t.Errorf("%s for what needs %s: not %t", held, needed, want)
			}
		}
	}
	if Role("").Includes(Viewer) || Role("root").Includes(Viewer) {
		t.Error("an unknown role may do something")
	}
}

func TestPolicyAllowsWhatItListsAndNothingElse(t *testing.T) {
	policy := Policy{"/s/Read": {Viewer, Gateway}, "/s/Ingest": {Heartbeat}, "/s/Never": {}}
	allowed := map[string][]Role{"/s/Read": {Viewer, Operator, Admin, Gateway}, "/s/Ingest": {Heartbeat}}
	for _, method := range []string{"/s/Read", "/s/Ingest", "/s/Never", "/s/Missing", ""} {
		for _, role := range append(roles, "") {
			want := false
			for _, one := range allowed[method] {
				want = want || one == role
			}
			if policy.Allows(method, role) != want {
				t.Errorf("%s by %q: not %t", method, role, want)
			}
		}
	}
}

func TestPrincipalTravelsInTheContext(t *testing.T) {
	if _, ok := PrincipalOf(t.Context()); ok {
		t.Error("nobody called yet")
	}
	alice := Principal{"alice", Viewer}
	if got, ok := PrincipalOf(WithPrincipal(t.Context(), alice)); !ok || got != alice {
		t.Errorf("is %+v, %t", got, ok)
	}
}
