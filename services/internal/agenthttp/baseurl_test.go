package agenthttp

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseBaseURLTakes(t *testing.T) {
	for text, want := range map[string]string{
		"http://bm-0042:7500":                "http://bm-0042:7500",
		"HTTPS://BM-0042.example.test/":      "https://BM-0042.example.test",
		"https://bm.example.test/agents/a//": "https://bm.example.test/agents/a",
		"https://bm.example.test/a%2Fb/":     "https://bm.example.test/a%2Fb",
		"http://10.1.2.3":                    "http://10.1.2.3",
		"http://127.0.0.1:65535":             "http://127.0.0.1:65535",
		"http://[2001:db8::1]:7500/x":        "http://[2001:db8::1]:7500/x",
		"https://müller.example.test":        "https://m%C3%BCller.example.test",
	} {
		base, err := ParseBaseURL(text)
		if err != nil || base.String() != want {
			t.Errorf("%s: %v, %v", text, base, err)
		}
	}
}

// Each refusal says which rule is broken.
func TestI17_BaseURLsAreRefusedWithTheirRule(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "must begin with http",
		"bm-0042:7500":                     "must begin with http",
		"ftp://bm-0042":                    "must begin with http",
		"file:///etc/passwd":               "must begin with http",
		"//bm-0042":                        "must begin with http",
		"http:bm-0042":                     "must name a host",
		"http://":                          "must name a host",
		"http://:7500":                     "must name a host",
		"http://user@bm-0042":              "must not hold user info",
		"http://user:fake@bm-0042":         "must not hold user info",
		"http://bm-0042?x=1":               "neither query nor fragment",
		"http://bm-0042?":                  "neither query nor fragment",
		"http://bm-0042#x":                 "neither query nor fragment",
		"http://bm-0042:0":                 "port of 1 to 65535",
		"http://bm-0042:00":                "port of 1 to 65535",
		"http://bm-0042:65536":             "port of 1 to 65535",
		"http://bm-0042:":                  "port of 1 to 65535",
		"http://bm-0042:x":                 "is not a URL",
		"http://bm 0042":                   "is not a URL",
		"http://bm\n0042":                  "U+000A",
		"http://bm-0042/%zz":               "is not a URL",
		"http://169.254.169.254/latest":    "link-local",
		"http://[::ffff:169.254.169.254]":  "link-local",
		"http://[fe80::1]":                 "link-local",
		"http://[fe80::1%25eth0]:80":       "link-local",
		"http://0.0.0.0:7500":              "unspecified",
		"http://[::]":                      "unspecified",
		"http://224.0.0.1":                 "multicast",
		"http://[ff02::1]":                 "multicast",
		"http://[fd00:ec2::254]":           "metadata",
		"http://168.63.129.16":             "metadata",
		"http://100.100.100.200":           "metadata",
		"http://a..b/":                     "empty label",
		"http://xn--/":                     "no host name",
		"http://bm\u200b1/":                "U+200B",
		"http://[::ffff:100.100.100.200]/": "metadata",
	} {
		base, err := ParseBaseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; wanted %q", text, base, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "fake") {
			t.Errorf("%q: the refusal shows the password", text)
		}
	}
}

// What is taken is one kind of URL only, and taking it again changes nothing.
func FuzzParseBaseURL(f *testing.F) {
	for _, seed := range []string{"http://bm-0042:7500/a/", "https://[fe80::1%25eth0]:80", "http://user:fake@h", "http://h/a%2Fb/?x#y", "http://0x7f.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		base, err := ParseBaseURL(text)
		if err != nil {
			return
		}
		if base.Hostname() == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" || (base.Scheme != "http" && base.Scheme != "https") {
			t.Errorf("%q is taken as %#v", text, base)
		}
		if ip, err := netip.ParseAddr(base.Hostname()); err == nil && CheckAddress(ip) != nil {
			t.Errorf("%q leads to %s", text, ip)
		}
		again, err := ParseBaseURL(base.String())
		if err != nil || again.String() != base.String() {
			t.Errorf("%q becomes %q, then %v, %v", text, base, again, err)
		}
	})
}
