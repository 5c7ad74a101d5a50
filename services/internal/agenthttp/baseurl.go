// Package agenthttp is how services of ours speak HTTP to agents: which URLs are allowed, and a client that never sends twice.
package agenthttp

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/commandcenter/fleet/services/internal/textrule"
)

// ParseBaseURL checks an agent's base URL: http or https with a host, no user info, query or fragment, and no address
// that leads to a cloud's metadata service or stays on one link.
func ParseBaseURL(text string) (*url.URL, error) {
	if err := textrule.Line(text); err != nil {
		return nil, err
	}
	base, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL, such as https://bm-01.example:8443/agent")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case base.Hostname() == "":
		return nil, errors.New("must name a host")
	case base.User != nil:
		return nil, errors.New("must not hold user info; the agent's credential is configured in the gateway")
	case base.Fragment != "" || base.RawQuery != "" || base.ForceQuery:
		return nil, errors.New("must have neither query nor fragment")
	}
	if !UsablePort(base) {
		return nil, errors.New("must have a port of 1 to 65535, or none")
	}
	if err := textrule.Host(base.Hostname()); err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(base.Hostname()); err == nil {
		if err := CheckAddress(ip); err != nil {
			return nil, err
		}
	}
	// Both spellings of the path, or the escaped one would no longer count.
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), strings.TrimRight(base.RawPath, "/")
	return base, nil
}

// UsablePort reports whether a URL has a port that can be called, or none.
func UsablePort(base *url.URL) bool {
	if base.Port() == "" {
		return !strings.HasSuffix(base.Host, ":")
	}
	port, err := strconv.ParseUint(base.Port(), 10, 16)
	return err == nil && port != 0
}

// metadataAddresses are those of clouds' metadata services which are not link-local.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("100.100.100.200"),
}

// CheckAddress refuses addresses that no agent has. It is asked again for what a name resolves to.
func CheckAddress(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("must not lead to %s: link-local, multicast and unspecified addresses are refused", ip)
	}
	for _, metadata := range metadataAddresses {
		if ip == metadata {
			return fmt.Errorf("must not lead to %s: it is a metadata service", ip)
		}
	}
	return nil
}
