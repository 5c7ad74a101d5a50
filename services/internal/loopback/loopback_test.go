package loopback

import "testing"

func TestIs(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "registry:80": false,
		"localhost.example.test:80": false, "127.0.0.1.example.test:80": false, "[fe80::1%lo]:80": false, "2130706433:80": false,
	} {
		if got, err := Is(address); err != nil || got != want {
			t.Errorf("%s: %t, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "::1:80", "http://127.0.0.1:80"} {
		if local, err := Is(address); err == nil || local {
			t.Errorf("%q is taken for an address", address)
		}
	}
}

func TestDistinct(t *testing.T) {
	for want, listens := range map[string]map[string]string{
		"": {"a": "127.0.0.1:0", "b": "127.0.0.1:0", "c": "127.0.0.1:1", "d": "", "e": "127.0.0.1:2", "f": ""},
		"b: is 127.0.0.1:1, as a is; each needs a port of its own": {"a": "127.0.0.1:1", "b": "127.0.0.1:1"},
	} {
		err := Distinct(listens)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%v: %v", listens, err)
		}
	}
}
