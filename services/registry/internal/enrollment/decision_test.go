package enrollment

import "testing"

func TestRegistrationStates(t *testing.T) {
	for _, row := range []struct {
		state State
		verb  Verb
		want  Refusal
	}{
		{Pending, Accept, None},
		{Pending, Reject, None},
		{Pending, Remove, None},
		{Accepted, Accept, AlreadyDecided},
		{Accepted, Reject, None},
		{Accepted, Remove, InUse},
		{Rejected, Accept, None},
		{Rejected, Reject, AlreadyDecided},
		{Rejected, Remove, None},
	} {
		if got := Allow(row.state, row.verb); got != row.want {
			t.Errorf("%s, verb %d: refusal %d, want %d", row.state, row.verb, got, row.want)
		}
	}
}

func TestI14_EtagsOfTwoRowsOrTwoDecisionsDiffer(t *testing.T) {
	seen := map[string][2]int64{}
	for key := range int64(30) {
		for version := range int64(30) {
			etag := Etag(key, version)
			if other, taken := seen[etag]; taken {
				t.Fatalf("%v and %v share the etag %s", other, [2]int64{key, version}, etag)
			}
			seen[etag] = [2]int64{key, version}
		}
	}
}
