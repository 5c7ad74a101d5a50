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
			if k, v, ok := ParseEtag(etag); !ok || k != key || v != version {
				t.Fatalf("%s is read as %d, %d, %v", etag, k, v, ok)
			}
		}
	}
	for _, text := range []string{"", "-", "1", "1-", "-1", "a-1", "1-b", "*", "1-2-3", "9223372036854775808-1"} {
		if _, _, ok := ParseEtag(text); ok {
			t.Errorf("%q is taken for an etag", text)
		}
	}
}
