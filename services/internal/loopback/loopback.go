// Package loopback tells addresses that only this machine can reach from those that others can.
package loopback

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
)

// Distinct returns an error that names the first two settings, in the order of their keys, which want the same port. Port 0 is any.
func Distinct(listens map[string]string) error {
	taken := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(listens)) {
		_, port, err := net.SplitHostPort(listens[key])
		if err != nil || port == "0" {
			continue // what is wrong with it is said elsewhere
		}
		if other, ok := taken[listens[key]]; ok {
			return fmt.Errorf("%s: is %s, as %s is; each needs a port of its own", key, listens[key], other)
		}
		taken[listens[key]] = key
	}
	return nil
}

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
