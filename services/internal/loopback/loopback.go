// Package loopback tells addresses that only this machine can reach from those that others can.
package loopback

import (
	"fmt"
	"net"
	"net/netip"
)

// Is tells whether host:port is on loopback. An empty host is every interface, and so is not.
func Is(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q is not host:port: %w", address, err)
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback(), nil
}
