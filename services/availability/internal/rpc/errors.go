package rpc

import (
	"context"
	"errors"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/watch"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// mapped turns a domain error into the reason callers see. It is the only place that does. End points at the field of the request
// that gives maintenance its end, where there is one.
func mapped(err error, end string) error {
	if err == nil {
		return nil
	}
	if found := refusal(err, end); found != nil {
		return found
	}
	return failure(err)
}

// refusal is what a caller can mend; nil for anything else. Nothing was changed.
func refusal(err error, end string) *fault.Error {
	var (
		known         *fault.Error
		noServer      *store.ServerNotFoundError
		severalServer *store.ServerAmbiguousError
		otherType     *store.ServerTypeError
		noEtag        *store.EtagRequiredError
		staleEtag     *store.StaleEtagError
		past          *store.PastError
		tooMany       *store.TooManyError
		noWindow      *store.WindowNotFoundError
		keyReused     *store.KeyReusedError
		madeAndGone   *store.MadeAndGoneError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &noServer):
		return fault.New(fault.ServerNotFound, "%v; nothing was changed", noServer)
	case errors.As(err, &severalServer):
		return fault.New(fault.ServerAmbiguous, "%v, so that none of them can be meant; nothing was changed. Show each by its key, GET /api/config/server-keys/{key}, and rename all but one, PATCH there", severalServer)
	case errors.As(err, &otherType):
		return fault.Invalid("/server", "%v", otherType)
	case errors.As(err, &noEtag):
		return fault.New(fault.EtagRequired, "%v: read it, and send its etag (over REST as If-Match); nothing was changed", noEtag).WithEtag(noEtag.Current)
	case errors.As(err, &staleEtag):
		return fault.New(fault.StaleEtag, "%v; nothing was changed. Read it again and decide anew", staleEtag).WithEtag(staleEtag.Current)
	case errors.As(err, &past):
		return fault.Invalid(end, "must lie ahead: %v", past)
	case errors.As(err, &tooMany):
		return fault.New(fault.TooManyWindows, "%v; nothing was changed", tooMany)
	case errors.Is(err, store.ErrNothingBraked):
		return fault.New(fault.NothingBraked, "%v; nothing was changed. Hold keeps the next one", store.ErrNothingBraked)
	case errors.As(err, &keyReused):
		return fault.New(fault.IdempotencyKeyReused, "%v; nothing was changed. Use a new key for each window", keyReused)
	case errors.As(err, &madeAndGone):
		return fault.New(fault.WindowNotFound, "%v; nothing was changed. Use a new key to make it again", madeAndGone)
	case errors.As(err, &noWindow):
		return fault.New(fault.WindowNotFound, "%v; nothing was changed", noWindow)
	}
	return nil
}

// failure is what a caller cannot mend.
func failure(err error) *fault.Error {
	var unwritten *sqldb.WriteError
	switch {
	case errors.Is(err, watch.ErrStopping):
		return fault.New(fault.AvailabilityUnavailable, "this replica of the availability service is stopping; watch again, another one answers")
	case errors.Is(err, watch.ErrTooSlow):
		return fault.New(fault.WatchTooSlow, "events were not read for half a minute or more, and the watch was ended; watch again, it begins with everything as it is")
	case sqldb.Rejected(err): // a rule of the tables that no check of ours knows
		return fault.New(fault.InvalidArgument, "the database refuses a value: %v; nothing was changed", err).WithCause(err)
	case errors.As(err, &unwritten):
		return fault.New(fault.DatabaseReadOnly, "the availability database takes no writes: %s; nothing was changed", unwritten.Problem).WithCause(err)
	case errors.Is(err, sqldb.ErrCommit):
		return fault.New(fault.OutcomeUnknown, "the availability database did not confirm the change: it is made or it is not. Look at the present state before repeating it").WithCause(err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	}
	// What is left came from the database, before anything was committed.
	return fault.New(fault.AvailabilityUnavailable, "the availability database did not answer as it should; nothing was changed, and the cause is in the log under the request id").WithCause(err)
}

// pointers are the fields of a request that a window's fields come from.
var (
	onceFields  = map[string]string{"start": "/rule/startAt", "end": "/rule/endAt"}
	recurFields = map[string]string{"start": "/rule/start", "zone": "/rule/zone", "rule": "/rule/rule", "duration": "/rule/duration", "ends": "/rule/ends"}
)

// ruleError points at the field of the request that a window's rule refuses.
func ruleError(err error, fields map[string]string) error {
	var refused *windows.FieldError
	if !errors.As(err, &refused) {
		return err
	}
	return fault.Invalid(fields[refused.Field], "%s", refused.Detail)
}
