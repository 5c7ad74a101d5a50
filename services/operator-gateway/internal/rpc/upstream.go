package rpc

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// upstream is a service of ours that the gateway asks, as errors tell of it.
type upstream struct {
	name    string       // in texts, after "the"
	reason  fault.Reason // where it cannot be used
	setting string       // the key that its settings are under
}

var (
	registryService     = upstream{name: "registry", reason: fault.RegistryUnavailable, setting: "registry"}
	availabilityService = upstream{name: "availability service", reason: fault.AvailabilityUnavailable, setting: "availability"}
)

// read says what an error of a read means: what the upstream answered, or that it did not.
func (u upstream) read(err error, agent string) error {
	if err == nil {
		return nil
	}
	if passed := u.passed(err, agent); passed != nil {
		return passed
	}
	switch status.Code(err) {
	case codes.Canceled:
		return fault.From(err)
	case codes.DeadlineExceeded:
		return u.unavailable(err, agent, "the %s did not answer in time; nothing was changed", u.name)
	}
	return u.unavailable(err, agent, "the %s cannot be reached; nothing was changed", u.name)
}

// changed says what an error of a change means. Where the upstream was asked and did not answer, the change may have been made.
func (u upstream) changed(err error, what act, reached bool) error {
	if err == nil {
		return nil
	}
	if passed := u.passed(err, what.agent); passed != nil {
		return passed
	}
	if !reached {
		return u.unavailable(err, what.agent, "the %s cannot be reached; nothing was changed", u.name)
	}
	return fault.New(fault.OutcomeUnknown, "the %s was asked to %s and did not answer: that may be done or not. It was not asked again; look at the present state before repeating it", u.name, what).
		WithAgent(what.agent).WithCause(err)
}

// passed is what the upstream itself answered, for the caller; nil where it did not answer.
func (u upstream) passed(err error, agent string) error {
	found := fault.From(err)
	switch {
	case found.Reason == fault.Unauthenticated || found.Reason == fault.PermissionDenied:
		return u.unavailable(err, agent, "the %s does not accept the gateway's own credential (%s.tokenFile); nothing was changed", u.name, u.setting)
	case status.Code(err) == codes.Unimplemented:
		return u.unavailable(err, agent, "the %s is older than this gateway and does not know the call; nothing was changed. Upgrade it first", u.name)
	case !Answered(err) || found.Reason == fault.ReadTimeout:
		return nil
	case found.Agent == "":
		return found.WithAgent(agent)
	}
	return found
}

func (u upstream) unavailable(cause error, agent, format string, args ...any) error {
	return fault.New(u.reason, format, args...).WithAgent(agent).WithCause(cause)
}

// Answered tells an error that a service of ours answered with from one that was made on the way.
func Answered(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == fault.Domain {
			return true
		}
	}
	return false
}
