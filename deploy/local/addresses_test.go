package local

import "testing"

func TestAControlServersNameStaysWithItsAddress(t *testing.T) {
	known := []address{
		{"control-1", "127.0.0.1:7422", "127.0.0.1:7423"},
		{"control-2", "127.0.0.1:41001", "127.0.0.1:41002"},
	}
	usual := address{GRPC: "127.0.0.1:7422", REST: "127.0.0.1:7423"}
	second := address{GRPC: "127.0.0.1:7522", REST: "127.0.0.1:7523"}
	anywhere := address{GRPC: "127.0.0.1:0", REST: "127.0.0.1:0"}
	only := func(free ...string) func(string) bool {
		return func(at string) bool {
			for _, f := range free {
				if f == at {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		what     string
		usual    address
		anyPorts bool
		known    []address
		taken    []string
		free     func(string) bool
		want     address
	}{
		{"the first of an empty folder", usual, false, nil, nil, only(), address{"control-1", usual.GRPC, usual.REST}},
		{"back at its usual address", usual, false, known, nil, only(), known[0]},
		{"a new one at a usual address", second, false, known, []string{"control-1"}, only(), address{"control-3", second.GRPC, second.REST}},
		{"anywhere, where the first was", anywhere, true, known, nil, only("127.0.0.1:7422", "127.0.0.1:7423"), known[0]},
		{"anywhere, the first taken", anywhere, true, known, nil, only("127.0.0.1:41001", "127.0.0.1:41002"), known[1]},
		{"anywhere, one of two ports taken", anywhere, true, known, nil, only("127.0.0.1:7422"), address{"control-3", "127.0.0.1:0", "127.0.0.1:0"}},
		{"anywhere, all taken", anywhere, true, known, []string{"control-3"}, only(), address{"control-4", "127.0.0.1:0", "127.0.0.1:0"}},
		{"anywhere, given already", anywhere, true, known[:1], []string{"control-1"}, only("127.0.0.1:7422", "127.0.0.1:7423"), address{"control-2", "127.0.0.1:0", "127.0.0.1:0"}},
	} {
		if got := placeFor(c.usual, c.anyPorts, c.known, c.taken, c.free); got != c.want {
			t.Errorf("%s: %v, not %v", c.what, got, c.want)
		}
	}
}

func TestAddressesAreRememberedAndBounded(t *testing.T) {
	dir := t.TempDir()
	for n := range addressesLimit + 3 {
		at := string(rune('a'+n/26)) + string(rune('a'+n%26))
		if err := rememberAddress(dir, address{"control-" + at, at, at}); err != nil {
			t.Fatal(err)
		}
	}
	known, err := readAddresses(dir)
	if err != nil || len(known) != addressesLimit || known[0].GRPC != "ad" {
		t.Fatalf("%d are remembered, from %v: %v", len(known), known[0], err)
	}
	if err := rememberAddress(dir, known[0]); err != nil {
		t.Fatal(err)
	}
	if again, _ := readAddresses(dir); len(again) != addressesLimit || again[len(again)-1] != known[0] {
		t.Errorf("the one used last is not the newest: %v", again)
	}
}
