package enrollment

import "testing"

// A control character is refused at the edge of a name too, as agent.proto says: trimming must not hide it.
func TestI17_AControlCharacterAtTheEdgeOfANameIsRefused(t *testing.T) {
	for _, text := range []string{"BM-1\n", "\tBM-1", "BM-1\x85", "\u0085BM-1"} {
		if name, err := ParseName(text); err == nil {
			t.Errorf("%q is taken as %+v", text, name)
		}
	}
}
