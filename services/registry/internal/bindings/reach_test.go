package bindings

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// What only the machine itself reaches is never proposed, however it is written.
func TestI8_WhatOnlyTheMachineReachesIsNeverOffered(t *testing.T) {
	for _, information := range []string{
		"127.0.0.1:80:", "127.9.9.9:80:", "[::1]:80:", "[::ffff:127.0.0.1]:80:", "*:80:localhost", "*:80:LOCALHOST.", "*:80:a.localhost", "*:80:127.0.0.1", "*:80:[::1]",
		"*:80:::ffff:127.0.0.1", "127.0.0.1:80:www.example.test", "[::1]:443:www.example.test", "*:80:fe80::1%eth0", "[fe80::1%1]:80:", "*:80:0.0.0.0",
	} {
		for _, hostname := range []string{"", "localhost", "host.example.test"} {
			for _, p := range Propose([]enrollment.Binding{binding("S", "Started", "http", information)}, hostname) {
				if p.Offered {
					t.Errorf("%s with host name %q: offers %s (%s)", information, hostname, p.URL, p.Reason)
				}
			}
		}
	}
}

func TestAMergedProposalHasTheRankAndReasonOfItsBest(t *testing.T) {
	got := Propose([]enrollment.Binding{
		binding("Any", "Started", "https", "*:443:"),
		binding("Other", "Started", "https", "*:443:other.test"),
		binding("Named", "Started", "https", "*:443:host.test"),
	}, "host.test")
	if len(got) != 2 || got[0].URL != "https://host.test" || !strings.Contains(got[0].Reason, "own host name") || strings.Join(got[0].Sites, ",") != "Any,Named" {
		t.Fatalf("%+v", got)
	}
}

// Every binding is in exactly one proposal, none is lost, and every proposal says why.
func FuzzManyBindings(f *testing.F) {
	f.Add("*:443:a.test", "*:80:", "[::1]:80:", "host")
	f.Add("*:80:fe80::1%eth0", "[fe80::1%1]:80:", "::", "")
	f.Add("*:80:1.2.3.4", "10.0.0.1:80:1.2.3.4", "*:65536:x", "1.2.3.4")
	f.Fuzz(func(t *testing.T, one, two, three, hostname string) {
		reported := []enrollment.Binding{
			binding("1", "Started", "http", one), binding("2", "Stopped", "https", two), binding("3", "Started", "HTTPS", three), binding("4", "Started", "http", one),
		}
		found := 0
		for _, p := range Propose(reported, hostname) {
			found += len(p.Bindings)
			if p.Reason == "" || len(p.Sites) == 0 {
				t.Fatalf("%+v", p)
			}
			if !p.Offered {
				continue
			}
			parsed, err := url.Parse(p.URL)
			if err != nil || parsed.Hostname() == "" || strings.HasPrefix(parsed.Host, "*") {
				t.Fatalf("offers %q: %v", p.URL, err)
			}
			if ip, err := netip.ParseAddr(parsed.Hostname()); err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified()) {
				t.Fatalf("offers %q", p.URL)
			}
		}
		if found != len(reported) {
			t.Fatalf("%d of %d bindings are shown", found, len(reported))
		}
	})
}
