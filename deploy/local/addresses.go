package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
)

// address is where a control server of the folder's systems was reached. The registry holds a name for its address until the control
// server has been gone for the eviction grace, so the next system in the folder gives a name to no other address.
type address struct {
	Name string `json:"name"`
	GRPC string `json:"grpc"`
	REST string `json:"rest"`
}

// addressesLimit bounds how many are remembered; the oldest are forgotten first.
const addressesLimit = 64

func readAddresses(dir string) (known []address, err error) {
	content, err := os.ReadFile(filepath.Join(dir, addressesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &known)
	}
	return known, err
}

// rememberAddress adds an address to those that are known, as the newest.
func rememberAddress(dir string, at address) error {
	known, err := readAddresses(dir)
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(k address) bool { return k.GRPC == at.GRPC || k.Name == at.Name })
	known = append(known, at)
	content, err := json.MarshalIndent(known[max(0, len(known)-addressesLimit):], "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, addressesName), append(content, '\n'), 0o644)
}

// placeFor decides where the next control server goes. usual are the documented addresses, or ones with port 0 where any will do: then one
// that was used before comes first, as long as it is free. taken are the names that this system gave already.
func placeFor(usual address, anyPorts bool, known []address, taken []string, free func(string) bool) address {
	at := usual
	for _, k := range known {
		if slices.Contains(taken, k.Name) {
			continue
		}
		if anyPorts && free(k.GRPC) && free(k.REST) {
			return k
		}
		if !anyPorts && k.GRPC == usual.GRPC {
			at.Name = k.Name
			return at
		}
	}
	used := slices.Clone(taken)
	for _, k := range known {
		used = append(used, k.Name)
	}
	for n := 1; ; n++ {
		if at.Name = fmt.Sprintf("control-%d", n); !slices.Contains(used, at.Name) {
			return at
		}
	}
}

// isFree reports whether a loopback address can be listened on now.
func isFree(at string) bool {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
