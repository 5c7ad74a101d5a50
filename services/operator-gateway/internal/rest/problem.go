package rest

import (
	"regexp"
	"strings"

	"github.com/commandcenter/fleet/services/internal/fault"
)

var badTimeout = regexp.MustCompile(`^invalid grpc-timeout`)

// pointed finds which part of a request a refusal of the gateway's own readers is about. Bodies, queries and paths were read before it,
// so that headers remain.
func pointed(err *fault.Error) *fault.Error {
	if err.Reason != fault.InvalidArgument || len(err.Fields) > 0 {
		return err
	}
	if badTimeout.MatchString(strings.ToLower(err.Detail)) {
		return fault.Invalid("#/Grpc-Timeout", "must be digits and a unit of H, M, S, m, u or n, as in 5S")
	}
	return fault.New(fault.InvalidArgument, "the request cannot be read; nothing was done").WithCause(err)
}
