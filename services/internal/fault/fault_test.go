package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// contract is the error table as callers were promised it: reason, gRPC code, HTTP status, whether nothing was sent.
const contract = `
INVALID_ARGUMENT       InvalidArgument    400
UNAUTHENTICATED        Unauthenticated    401
PERMISSION_DENIED      PermissionDenied   403
AGENT_NOT_FOUND        NotFound           404
SERVER_NOT_FOUND       NotFound           404
SERVICE_NOT_FOUND      NotFound           404
APP_POOL_NOT_FOUND     NotFound           404
INSTALLATION_NOT_FOUND NotFound           404
CONTROL_SERVER_NOT_FOUND NotFound 404
GROUP_NOT_FOUND NotFound 404
WINDOW_NOT_FOUND       NotFound           404
ROUTE_NOT_FOUND        NotFound           404
METHOD_NOT_ALLOWED     Unimplemented      405
BODY_TOO_LARGE         InvalidArgument    413
UNSUPPORTED_MEDIA_TYPE InvalidArgument    415
HEADERS_TOO_LARGE      InvalidArgument    431
REQUEST_TIMEOUT        DeadlineExceeded   408
AGENT_NOT_ACCEPTED     FailedPrecondition 409
ALREADY_DECIDED        FailedPrecondition 409
NAME_TAKEN             AlreadyExists      409
ENDPOINT_TAKEN AlreadyExists 409
PROTOCOLS_APART FailedPrecondition 409
NOT_REGISTERED FailedPrecondition 409
NOT_CLAIMABLE FailedPrecondition 409
NAME_MISMATCH          FailedPrecondition 409
SERVER_AMBIGUOUS       FailedPrecondition 409
TOO_MANY_WINDOWS       FailedPrecondition 409
IDEMPOTENCY_KEY_REUSED FailedPrecondition 409
NOTHING_BRAKED FailedPrecondition 409
IN_USE                 FailedPrecondition 409
IDENTITY_CONFLICT      FailedPrecondition 409
STALE_ETAG             Aborted            412
ETAG_REQUIRED          FailedPrecondition 428
HEARTBEAT_STALE        Unavailable        503 nothing-sent
AGENT_UNREACHABLE      Unavailable        503 nothing-sent
BUDGET_TOO_SHORT       DeadlineExceeded   503 nothing-sent
OUTCOME_UNKNOWN        DeadlineExceeded   503
READ_TIMEOUT           DeadlineExceeded   503
BUS_UNAVAILABLE        Unavailable        503 nothing-sent
REGISTRY_UNAVAILABLE   Unavailable        503 nothing-sent
AVAILABILITY_UNAVAILABLE Unavailable      503 nothing-sent
DATABASE_READONLY      Unavailable        503 nothing-sent
WATCH_TOO_SLOW         ResourceExhausted  503
BUSY ResourceExhausted 429 nothing-sent
DRAINING Unavailable 503
COMMAND_REFUSED        FailedPrecondition 409
HOST_STATE             FailedPrecondition 409
AGENT_FAILED           Internal           502
INTERNAL               Internal           500
`

func TestTheTableKeepsTheContract(t *testing.T) {
	var rows []string
	for _, reason := range Reasons() {
		row := fmt.Sprint(reason, " ", reason.Code(), " ", reason.HTTPStatus())
		if reason.NothingSent() {
			row += " nothing-sent"
		}
		rows = append(rows, row)
		if reason.Title() == "" || http.StatusText(reason.HTTPStatus()) == "" {
			t.Errorf("%s has no title or no HTTP status", reason)
		}
	}
	var want []string
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		want = append(want, strings.Join(strings.Fields(line), " "))
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("the table is\n%s\nand not\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	if len(rows) != len(rowsByReason()) {
		t.Error("a reason stands in the table twice")
	}
	if unknown := Reason("NO_SUCH"); unknown.Known() || unknown.Code() != codes.Internal || unknown.NothingSent() {
		t.Error("a reason outside the table must count as unexpected")
	}
}

func rowsByReason() map[Reason]bool {
	found := map[Reason]bool{}
	for _, reason := range Reasons() {
		found[reason] = true
	}
	return found
}

// A retry is safe only where nothing was sent: never after a command went out.
func TestI3_NoRetryIsInvitedAfterASend(t *testing.T) {
	for _, reason := range []Reason{OutcomeUnknown, ReadTimeout, AgentFailed, Internal} {
		if reason.NothingSent() {
			t.Errorf("%s says that nothing was sent", reason)
		}
	}
}

func TestDetailsTravelOverGRPC(t *testing.T) {
	for _, reason := range Reasons() {
		sent := New(reason, "what %s", "happened").WithAgent("BM-1").WithCommand("c-1").WithEtag("3-4").
			WithField("/createServer/url", "must be a URL").WithField("/name", "is required").WithRetry(1500 * time.Millisecond).WithCause(errors.New("the password is fake"))
		wire, err := proto.Marshal(sent.GRPCStatus().Proto())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(wire), "password") {
			t.Fatal("the cause is shown to callers")
		}
		got := From(fmt.Errorf("calling: %w", status.FromProto(sent.GRPCStatus().Proto()).Err()))
		got.Cause, sent.Cause = nil, nil
		got.Detail = strings.TrimPrefix(got.Detail, "calling: ")
		got.Detail = strings.TrimPrefix(got.Detail, "rpc error: code = "+reason.Code().String()+" desc = ")
		if !reflect.DeepEqual(got, sent) {
			t.Errorf("%s arrives as %+v", reason, got)
		}
	}
}

func TestDetailsSurviveTextsThatAreNotUTF8(t *testing.T) {
	sent := New(AgentFailed, "it said %s", "\xff").WithAgent("\xfe").WithField("/\xfd", "\xfc")
	got := From(sent.GRPCStatus().Err())
	if got.Reason != AgentFailed || got.Detail != "it said \uFFFD" || len(got.Fields) != 1 {
		t.Errorf("arrives as %+v", got)
	}
	if _, err := proto.Marshal(sent.GRPCStatus().Proto()); err != nil {
		t.Error(err)
	}
}

func TestBuildersLeaveTheirOriginalAlone(t *testing.T) {
	original := New(StaleEtag, "changed")
	_ = original.WithAgent("a").WithCommand("c").WithEtag("e").WithField("/f", "d").WithRetry(time.Second).WithCause(errors.New("x"))
	if !reflect.DeepEqual(original, New(StaleEtag, "changed")) {
		t.Errorf("changed to %+v", original)
	}
	first := original.WithField("/a", "1").WithField("/b", "2").WithField("/c", "3") // a fourth would fit without growing
	left, right := first.WithField("/d", "4"), first.WithField("/e", "5")
	if left.Fields[3].Pointer != "/d" || right.Fields[3].Pointer != "/e" {
		t.Error("two copies share their fields")
	}
}

func TestI17_InvalidNamesItsField(t *testing.T) {
	found := Invalid("/createServer/url", "must begin with %s", "https://")
	want := []Field{{"/createServer/url", "must begin with https://"}}
	if found.Reason != InvalidArgument || !reflect.DeepEqual(found.Fields, want) || !strings.HasPrefix(found.Detail, "/createServer/url: must begin") {
		t.Errorf("made %+v", found)
	}
}

func TestFrom(t *testing.T) {
	foreign, err := status.New(codes.NotFound, "secret detail").WithDetails(&errdetails.ErrorInfo{Domain: "elsewhere", Reason: "AGENT_NOT_FOUND"})
	if err != nil {
		t.Fatal(err)
	}
	unheard, err := status.New(codes.NotFound, "secret detail").WithDetails(&errdetails.ErrorInfo{Domain: Domain, Reason: "SOMETHING_NEWER"})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		err    error
		reason Reason
		detail string
	}{
		"wrapped":              {fmt.Errorf("x: %w", New(InUse, "linked")), InUse, "linked"},
		"invalid argument":     {status.Error(codes.InvalidArgument, "line 1"), InvalidArgument, "line 1"},
		"unauthenticated":      {status.Error(codes.Unauthenticated, "who"), Unauthenticated, "who"},
		"permission":           {status.Error(codes.PermissionDenied, "no"), PermissionDenied, "no"},
		"no such method":       {status.Error(codes.Unimplemented, "none"), RouteNotFound, "none"},
		"deadline":             {fmt.Errorf("x: %w", context.DeadlineExceeded), ReadTimeout, "the request's time ended before it was answered"},
		"deadline over gRPC":   {status.Error(codes.DeadlineExceeded, "x"), ReadTimeout, "the request's time ended before it was answered"},
		"caller gone":          {context.Canceled, ReadTimeout, "the caller went away before it was answered"},
		"unavailable":          {status.Error(codes.Unavailable, "secret detail"), Internal, ""},
		"another's details":    {foreign.Err(), Internal, ""},
		"a reason of tomorrow": {unheard.Err(), Internal, ""},
		"anything else":        {errors.New("secret detail"), Internal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := From(row.err)
			if row.detail == "" {
				row.detail = "unexpected; the cause is in the log under the request id"
			}
			if got.Reason != row.reason || got.Detail != row.detail {
				t.Errorf("is %s: %s", got.Reason, got.Detail)
			}
			if name != "wrapped" && !errors.Is(got, row.err) {
				t.Error("the cause is lost for the log")
			}
		})
	}
	if From(nil) != nil {
		t.Error("nil must stay nil")
	}
}

// Where REST answers with Retry-After, gRPC answers with RetryInfo.
func TestRetryInfoIsThereWhereverRetryAfterIs(t *testing.T) {
	for _, reason := range Reasons() {
		var delay time.Duration
		for _, detail := range New(reason, "what happened").GRPCStatus().Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				delay = retry.GetRetryDelay().AsDuration()
			}
		}
		if delay != New(reason, "").RetryAfter() || (delay > 0) != reason.NothingSent() {
			t.Errorf("%s: comes again after %s over gRPC, %s over REST", reason, delay, New(reason, "").RetryAfter())
		}
	}
	if told := New(Busy, "").WithRetry(time.Minute); told.RetryAfter() != time.Minute || From(told.GRPCStatus().Err()).RetryAfter() != time.Minute {
		t.Error("a delay of its own is lost")
	}
}
