package bindings

import (
	"net/url"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

func binding(site, state, protocol, information string) enrollment.Binding {
	return enrollment.Binding{Site: site, State: state, Protocol: protocol, Information: information}
}

func TestOneBinding(t *testing.T) {
	for _, test := range []struct {
		what, protocol, information, hostname string
		url                                   string
		offered                               bool
		reason                                string
	}{
		{"named https", "https", "*:443:www.example.test", "host", "https://www.example.test", true, "own host name"},
		{"other port", "https", "*:8443:www.example.test", "host", "https://www.example.test:8443", true, ""},
		{"default http port", "http", "*:80:WWW.Example.Test", "host", "http://www.example.test", true, ""},
		{"no host: the agent's", "https", "*:443:", "Host-1.example.test", "https://host-1.example.test", true, "agent's host name"},
		{"empty address", "https", ":443:", "host", "https://host", true, ""},
		{"address and hostname", "http", "10.0.0.5:8080:", "host", "http://host:8080", true, "agent's host name"},
		{"address without hostname", "http", "10.0.0.5:8080:", "", "http://10.0.0.5:8080", true, "its address"},
		{"IPv6", "https", "[2001:db8::1]:443:", "", "https://[2001:db8::1]", true, ""},
		{"IPv6 with port", "https", "[2001:db8::1]:8443:", "", "https://[2001:db8::1]:8443", true, ""},
		{"IPv6 any", "https", "[::]:443:", "host", "https://host", true, ""},
		{"any without hostname", "https", "0.0.0.0:443:", "", "", false, "names a host"},
		{"loopback", "http", "127.0.0.1:80:", "host", "", false, "loopback"},
		{"IPv6 loopback", "http", "[::1]:80:", "host", "", false, "loopback"},
		{"localhost", "http", "*:80:localhost", "host", "", false, "loopback"},
		{"loopback hostname", "http", "*:80:", "localhost", "", false, "names a host"},
		{"wildcard host", "https", "*:443:*.example.test", "host", "https://*.example.test", false, "wildcard"},
		{"international", "https", "*:443:Bücher.example.test", "host", "https://xn--bcher-kva.example.test", true, ""},
		{"port 0", "http", "*:0:a.test", "host", "", false, "port"},
		{"port too high", "http", "*:70000:a.test", "host", "", false, "port"},
		{"no parts", "http", "garbage", "host", "", false, "cannot be read"},
		{"open bracket", "http", "[::1:80:", "host", "", false, "cannot be read"},
		{"net.tcp", "net.tcp", "808:*", "host", "", false, "protocol"},
		{"net.pipe", "net.pipe", "*", "host", "", false, "protocol"},
		{"path in the host", "http", "*:80:a.test/evil", "host", "", false, "cannot be read"},
	} {
		t.Run(test.what, func(t *testing.T) {
			got := Propose([]enrollment.Binding{binding("Site", "Started", test.protocol, test.information)}, test.hostname)
			if len(got) != 1 || got[0].URL != test.url || got[0].Offered != test.offered || !strings.Contains(got[0].Reason, test.reason) {
				t.Fatalf("got %+v", got)
			}
		})
	}
}

func TestOrderAndMerging(t *testing.T) {
	got := Propose([]enrollment.Binding{
		binding("Pipe", "Started", "net.pipe", "*"),
		binding("Old", "Stopped", "https", "*:443:old.test"),
		binding("Plain", "Started", "http", "*:80:plain.test"),
		binding("Any", "Started", "https", "*:443:"),
		binding("Wild", "Started", "https", "*:443:*.wild.test"),
		binding("Named", "Started", "https", "*:443:named.test"),
		binding("Twin", "Stopped", "https", "*:443:NAMED.test"),
	}, "host")
	var order []string
	for _, p := range got {
		order = append(order, p.URL)
	}
	want := "https://named.test https://host http://plain.test https://old.test https://*.wild.test "
	if strings.Join(order, " ") != want {
		t.Fatalf("order is %q", strings.Join(order, " "))
	}
	if strings.Join(got[0].Sites, ",") != "Named,Twin" || len(got[0].Bindings) != 2 || strings.Contains(got[0].Reason, "not started") {
		t.Fatalf("duplicates must be merged with all their sites: %+v", got[0])
	}
	if !strings.Contains(got[3].Reason, "not started") {
		t.Fatalf("a stopped site must say so: %+v", got[3])
	}
}

func FuzzPropose(f *testing.F) {
	for _, seed := range []string{"*:443:a.test", "[::1]:80:", "::::", "*:80:*.x", "1.2.3.4:5:ü"} {
		f.Add("https", seed, "host")
	}
	f.Fuzz(func(t *testing.T, protocol, information, hostname string) {
		for _, p := range Propose([]enrollment.Binding{binding("S", "Started", protocol, information)}, hostname) {
			if !p.Offered {
				continue
			}
			parsed, err := url.Parse(p.URL)
			if err != nil || parsed.Host == "" || parsed.Path != "" || parsed.User != nil {
				t.Fatalf("offered %q, which is no plain URL: %v", p.URL, err)
			}
		}
	})
}
