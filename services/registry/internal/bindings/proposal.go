// Package bindings turns IIS bindings, as an agent reported them, into URLs that an operator may give to a server. Parsing
// happens here and never fails a heartbeat: what cannot be read is listed with its error.
package bindings

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Proposal is one candidate URL, or one binding that gives none and why.
type Proposal struct {
	URL      string // empty when there is none
	Offered  bool   // can be used as it stands
	Reason   string
	Sites    []string
	Bindings []enrollment.Binding
}

// rank orders proposals: lower is better. Fields in order of weight.
type candidate struct {
	Proposal
	stopped bool
	http    bool // https comes before
	unnamed bool // a named host comes before a wildcard address
	index   int  // the site's own order
}

// Propose derives URLs, best first; bindings that give none come last. Hostname is what the agent last reported.
func Propose(reported []enrollment.Binding, hostname string) []Proposal {
	var candidates []candidate
	for i, binding := range reported {
		c := propose(binding, hostname)
		c.index, c.Sites, c.Bindings = i, []string{binding.Site}, []enrollment.Binding{binding}
		candidates = merge(candidates, c)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(
			before(!a.Offered, !b.Offered), before(a.URL == "", b.URL == ""), before(a.stopped, b.stopped),
			before(a.http, b.http), before(a.unnamed, b.unnamed), cmp.Compare(a.index, b.index))
	})
	proposals := make([]Proposal, len(candidates))
	for i, c := range candidates {
		proposals[i] = c.Proposal
	}
	return proposals
}

// before puts false first.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// merge joins proposals of one URL, naming all their sites; its reason is that of the best: a started site's, a named host's.
func merge(candidates []candidate, c candidate) []candidate {
	at := slices.IndexFunc(candidates, func(other candidate) bool { return c.URL != "" && other.URL == c.URL })
	if at < 0 {
		return append(candidates, c)
	}
	known := &candidates[at]
	sites, bindings, index := unique(append(known.Sites, c.Sites...)), append(known.Bindings, c.Bindings...), known.index
	if cmp.Or(before(c.stopped, known.stopped), before(c.unnamed, known.unnamed)) < 0 {
		*known = c
	}
	known.Sites, known.Bindings, known.index = sites, bindings, index
	return candidates
}

func unique(sites []string) []string {
	var kept []string
	for _, site := range sites {
		if !slices.Contains(kept, site) {
			kept = append(kept, site)
		}
	}
	return kept
}

func refused(format string, args ...any) candidate {
	return candidate{Proposal: Proposal{Reason: fmt.Sprintf(format, args...)}}
}

func propose(binding enrollment.Binding, hostname string) candidate {
	scheme := strings.ToLower(binding.Protocol)
	if scheme != "http" && scheme != "https" {
		return refused("protocol %q is not served to browsers", binding.Protocol)
	}
	address, port, host, err := parse(binding.Information)
	if err != nil {
		return refused("the binding %q cannot be read: %v", binding.Information, err)
	}
	c := candidate{http: scheme == "http", stopped: !strings.EqualFold(binding.State, "started")}
	name, reason, offered := chooseHost(address, host, hostname)
	c.unnamed = host == ""
	if name == "" {
		c.Reason = reason
		return c
	}
	c.URL, c.Reason, c.Offered = format(scheme, name, port), scheme+", "+reason, offered
	if c.stopped {
		c.Reason += fmt.Sprintf("; the site is not started (%s)", cmp.Or(binding.State, "state unknown"))
	}
	return c
}

// parse takes "ip:port:host" apart; the address may be "*", IPv4, or IPv6 in brackets.
func parse(information string) (address string, port int, host string, err error) {
	rest := information
	if strings.HasPrefix(rest, "[") {
		end := strings.Index(rest, "]:")
		if end < 0 {
			return "", 0, "", fmt.Errorf("the bracket is not closed")
		}
		address, rest = rest[1:end], rest[end+2:]
		if ip, err := netip.ParseAddr(address); err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", 0, "", fmt.Errorf("%q is no IPv6 address without a zone", address)
		}
	} else {
		var found bool
		if address, rest, found = strings.Cut(rest, ":"); !found {
			return "", 0, "", fmt.Errorf("expected ip:port:host")
		}
		if ip, err := netip.ParseAddr(address); address != "*" && address != "" && (err != nil || !ip.Is4()) {
			return "", 0, "", fmt.Errorf("%q is no IP address", address)
		}
	}
	digits, host, found := strings.Cut(rest, ":")
	if !found {
		return "", 0, "", fmt.Errorf("expected ip:port:host")
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 1 || port > 65535 || strings.HasPrefix(digits, "+") {
		return "", 0, "", fmt.Errorf("port %q is not 1 to 65535", digits)
	}
	return address, port, host, nil
}

// chooseHost picks the host of a URL: the binding's own, else the agent's, else the address.
func chooseHost(address, host, hostname string) (name, reason string, offered bool) {
	ip, err := netip.ParseAddr(address)
	wildcard := err != nil || ip.IsUnspecified()
	if !wildcard && ip.Unmap().IsLoopback() {
		return "", fmt.Sprintf("%s is loopback: only the machine itself reaches it", address), false
	}
	if host != "" {
		return namedHost(host)
	}
	if hostname != "" {
		ascii, err := toASCII(hostname)
		if err == nil && !isLoopbackName(ascii) {
			return ascii, "no host name in the binding, so the agent's host name is used", true
		}
	}
	if wildcard {
		return "", "neither the binding nor the agent names a host", false
	}
	return ip.Unmap().String(), "no host name in the binding and none reported, so its address is used", true
}

func namedHost(host string) (name, reason string, offered bool) {
	if rest, found := strings.CutPrefix(host, "*."); found {
		ascii, err := toASCII(rest)
		if err != nil {
			return "", fmt.Sprintf("the host %q cannot be read: %v", host, err), false
		}
		return "*." + ascii, fmt.Sprintf("%s is a wildcard and names no one host: choose one", host), false
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Sprintf("%s has a zone, which means something on the machine itself only", host), false
		}
		if ip = ip.Unmap(); ip.IsLoopback() || ip.IsUnspecified() {
			return "", fmt.Sprintf("%s is reached by the machine itself only", host), false
		}
		return ip.String(), "the binding's address as its host", true
	}
	ascii, err := toASCII(host)
	if err != nil {
		return "", fmt.Sprintf("the host %q cannot be read: %v", host, err), false
	}
	if isLoopbackName(ascii) {
		return "", fmt.Sprintf("%s is loopback: only the machine itself reaches it", host), false
	}
	return ascii, "the binding's own host name", true
}

// toASCII lower-cases a host and writes international names in their ASCII form.
func toASCII(host string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(strings.ToLower(host), "."))
	if err != nil || ascii == "" {
		// Machine names may hold underscores, which IDNA refuses and browsers take.
		ascii, err = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.BidiRule()).ToASCII(strings.TrimSuffix(strings.ToLower(host), "."))
	}
	if err != nil {
		return "", err
	}
	if ascii == "" || len(ascii) > 253 || strings.ContainsFunc(ascii, notInHost) || strings.HasPrefix(ascii, ".") || strings.Contains(ascii, "..") {
		return "", fmt.Errorf("it is no host name")
	}
	return ascii, nil
}

// notInHost tells what a host in its ASCII form never holds.
func notInHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}

func isLoopbackName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func format(scheme, host string, port int) string {
	if (scheme == "http" && port == 80) || (scheme == "https" && port == 443) {
		if strings.Contains(host, ":") {
			return scheme + "://[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}
