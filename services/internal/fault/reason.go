package fault

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Reason names why a request was not done. It is the same over gRPC and REST.
type Reason string

// The reasons. What each means stands in the table below.
const (
	InvalidArgument         Reason = "INVALID_ARGUMENT"
	Unauthenticated         Reason = "UNAUTHENTICATED"
	PermissionDenied        Reason = "PERMISSION_DENIED"
	AgentNotFound           Reason = "AGENT_NOT_FOUND"
	ServerNotFound          Reason = "SERVER_NOT_FOUND"
	ServiceNotFound         Reason = "SERVICE_NOT_FOUND"
	AppPoolNotFound         Reason = "APP_POOL_NOT_FOUND"
	InstallationNotFound    Reason = "INSTALLATION_NOT_FOUND"
	ControlServerNotFound   Reason = "CONTROL_SERVER_NOT_FOUND"
	GroupNotFound           Reason = "GROUP_NOT_FOUND"
	WindowNotFound          Reason = "WINDOW_NOT_FOUND"
	RouteNotFound           Reason = "ROUTE_NOT_FOUND"
	MethodNotAllowed        Reason = "METHOD_NOT_ALLOWED"
	BodyTooLarge            Reason = "BODY_TOO_LARGE"
	UnsupportedMediaType    Reason = "UNSUPPORTED_MEDIA_TYPE"
	HeadersTooLarge         Reason = "HEADERS_TOO_LARGE"
	RequestTimeout          Reason = "REQUEST_TIMEOUT"
	AgentNotAccepted        Reason = "AGENT_NOT_ACCEPTED"
	AlreadyDecided          Reason = "ALREADY_DECIDED"
	NameTaken               Reason = "NAME_TAKEN"
	EndpointTaken           Reason = "ENDPOINT_TAKEN"
	ProtocolsApart          Reason = "PROTOCOLS_APART"
	NotRegistered           Reason = "NOT_REGISTERED"
	NotClaimable            Reason = "NOT_CLAIMABLE"
	NameMismatch            Reason = "NAME_MISMATCH"
	ServerAmbiguous         Reason = "SERVER_AMBIGUOUS"
	TooManyWindows          Reason = "TOO_MANY_WINDOWS"
	IdempotencyKeyReused    Reason = "IDEMPOTENCY_KEY_REUSED"
	NothingBraked           Reason = "NOTHING_BRAKED"
	InUse                   Reason = "IN_USE"
	IdentityConflict        Reason = "IDENTITY_CONFLICT"
	StaleEtag               Reason = "STALE_ETAG"
	EtagRequired            Reason = "ETAG_REQUIRED"
	HeartbeatStale          Reason = "HEARTBEAT_STALE"
	AgentUnreachable        Reason = "AGENT_UNREACHABLE"
	BudgetTooShort          Reason = "BUDGET_TOO_SHORT"
	OutcomeUnknown          Reason = "OUTCOME_UNKNOWN"
	ReadTimeout             Reason = "READ_TIMEOUT"
	BusUnavailable          Reason = "BUS_UNAVAILABLE"
	RegistryUnavailable     Reason = "REGISTRY_UNAVAILABLE"
	AvailabilityUnavailable Reason = "AVAILABILITY_UNAVAILABLE"
	DatabaseReadOnly        Reason = "DATABASE_READONLY"
	WatchTooSlow            Reason = "WATCH_TOO_SLOW"
	Busy                    Reason = "BUSY"
	Draining                Reason = "DRAINING"
	CommandRefused          Reason = "COMMAND_REFUSED"
	HostState               Reason = "HOST_STATE"
	AgentFailed             Reason = "AGENT_FAILED"
	Internal                Reason = "INTERNAL"
)

type row struct {
	reason Reason
	code   codes.Code
	status int
	title  string
	// retry: nothing was sent and nothing changed, so that the caller may try again after a while.
	retry bool
}

// table is the one place where a reason gets its gRPC code, its HTTP status and its title.
var table = []row{
	{InvalidArgument, codes.InvalidArgument, http.StatusBadRequest, "A field breaks its rule", false},
	{Unauthenticated, codes.Unauthenticated, http.StatusUnauthorized, "No valid credentials", false},
	{PermissionDenied, codes.PermissionDenied, http.StatusForbidden, "The role does not allow this", false},
	{AgentNotFound, codes.NotFound, http.StatusNotFound, "No agent of that name", false},
	{ServerNotFound, codes.NotFound, http.StatusNotFound, "No server of that name", false},
	{ServiceNotFound, codes.NotFound, http.StatusNotFound, "The agent has no service of that name", false},
	{AppPoolNotFound, codes.NotFound, http.StatusNotFound, "The agent has no application pool of that name", false},
	{InstallationNotFound, codes.NotFound, http.StatusNotFound, "The agent has no such installation", false},
	{ControlServerNotFound, codes.NotFound, http.StatusNotFound, "No control server of that name", false},
	{GroupNotFound, codes.NotFound, http.StatusNotFound, "No affinity group of that name", false},
	{WindowNotFound, codes.NotFound, http.StatusNotFound, "The server has no such maintenance window", false},
	{RouteNotFound, codes.NotFound, http.StatusNotFound, "No such route", false},
	{MethodNotAllowed, codes.Unimplemented, http.StatusMethodNotAllowed, "The route does not have that method", false},
	{BodyTooLarge, codes.InvalidArgument, http.StatusRequestEntityTooLarge, "The body is too large", false},
	{UnsupportedMediaType, codes.InvalidArgument, http.StatusUnsupportedMediaType, "The body is not JSON", false},
	{HeadersTooLarge, codes.InvalidArgument, http.StatusRequestHeaderFieldsTooLarge, "The headers are too large", false},
	{RequestTimeout, codes.DeadlineExceeded, http.StatusRequestTimeout, "The request did not arrive in time", false},
	{AgentNotAccepted, codes.FailedPrecondition, http.StatusConflict, "The agent is not accepted", false},
	{AlreadyDecided, codes.FailedPrecondition, http.StatusConflict, "It was decided so already", false},
	{NameTaken, codes.AlreadyExists, http.StatusConflict, "The name is taken", false},
	{EndpointTaken, codes.AlreadyExists, http.StatusConflict, "Another control server has that endpoint", false},
	{ProtocolsApart, codes.FailedPrecondition, http.StatusConflict, "No protocol version in common", false},
	{NotRegistered, codes.FailedPrecondition, http.StatusConflict, "The agent has to register first", false},
	{NotClaimable, codes.FailedPrecondition, http.StatusConflict, "An operator has to allow the name to be claimed", false},
	{NameMismatch, codes.FailedPrecondition, http.StatusConflict, "The names of agent and server differ", false},
	{ServerAmbiguous, codes.FailedPrecondition, http.StatusConflict, "Several servers have that name", false},
	{TooManyWindows, codes.FailedPrecondition, http.StatusConflict, "The server has too many maintenance windows", false},
	{IdempotencyKeyReused, codes.FailedPrecondition, http.StatusConflict, "Another request had that Idempotency-Key", false},
	{NothingBraked, codes.FailedPrecondition, http.StatusConflict, "The brake holds nobody", false},
	{InUse, codes.FailedPrecondition, http.StatusConflict, "It is in use", false},
	{IdentityConflict, codes.FailedPrecondition, http.StatusConflict, "Two machines use the agent's name", false},
	{StaleEtag, codes.Aborted, http.StatusPreconditionFailed, "It was changed meanwhile", false},
	{EtagRequired, codes.FailedPrecondition, http.StatusPreconditionRequired, "An etag is required", false},
	{HeartbeatStale, codes.Unavailable, http.StatusServiceUnavailable, "The agent was not heard lately", true},
	{AgentUnreachable, codes.Unavailable, http.StatusServiceUnavailable, "The agent cannot be reached", true},
	{BudgetTooShort, codes.DeadlineExceeded, http.StatusServiceUnavailable, "Too little time was left to send", true},
	{OutcomeUnknown, codes.DeadlineExceeded, http.StatusServiceUnavailable, "It may have been carried out", false},
	{ReadTimeout, codes.DeadlineExceeded, http.StatusServiceUnavailable, "The agent did not answer in time", false},
	{BusUnavailable, codes.Unavailable, http.StatusServiceUnavailable, "Service Bus cannot be used", true},
	{RegistryUnavailable, codes.Unavailable, http.StatusServiceUnavailable, "The registry cannot be reached", true},
	{AvailabilityUnavailable, codes.Unavailable, http.StatusServiceUnavailable, "The availability service cannot be used", true},
	{DatabaseReadOnly, codes.Unavailable, http.StatusServiceUnavailable, "The database takes no writes", true},
	{WatchTooSlow, codes.ResourceExhausted, http.StatusServiceUnavailable, "The watch was read too slowly", false},
	{Busy, codes.ResourceExhausted, http.StatusTooManyRequests, "The control server has too much to do", true},
	{Draining, codes.Unavailable, http.StatusServiceUnavailable, "The control server takes no agents", false},
	{CommandRefused, codes.FailedPrecondition, http.StatusConflict, "The agent refused and did nothing", false},
	{HostState, codes.FailedPrecondition, http.StatusConflict, "The machine's state does not allow it", false},
	{AgentFailed, codes.Internal, http.StatusBadGateway, "The agent tried and failed", false},
	{Internal, codes.Internal, http.StatusInternalServerError, "Unexpected error", false},
}

var rows = func() map[Reason]row {
	index := make(map[Reason]row, len(table))
	for _, r := range table {
		index[r.reason] = r
	}
	return index
}()

// Reasons lists every reason, in the table's order.
func Reasons() []Reason {
	all := make([]Reason, len(table))
	for i, r := range table {
		all[i] = r.reason
	}
	return all
}

// Known tells whether the reason stands in the table.
func (r Reason) Known() bool { _, ok := rows[r]; return ok }

// Code is the gRPC code; Internal's for an unknown reason.
func (r Reason) Code() codes.Code { return r.row().code }

// HTTPStatus is the REST status; Internal's for an unknown reason.
func (r Reason) HTTPStatus() int { return r.row().status }

// Title is the reason in words.
func (r Reason) Title() string { return r.row().title }

// NothingSent tells that nothing was sent or changed, so that trying again later is safe. Only then is there a Retry-After.
func (r Reason) NothingSent() bool { return r.row().retry }

func (r Reason) row() row {
	if found, ok := rows[r]; ok {
		return found
	}
	return rows[Internal]
}
