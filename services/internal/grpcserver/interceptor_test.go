package grpcserver

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func answer(err error) func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
	return func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		return &registryv1.GetServerResponse{}, err
	}
}

func TestCallersSeeReasonsAndNeverCauses(t *testing.T) {
	f := start(t, nil)
	for name, row := range map[string]struct {
		err  error
		want fault.Reason
	}{
		"a fault":           {fault.New(fault.InUse, "linked").WithCause(errors.New("hush")), fault.InUse},
		"a wrapped fault":   {errors.Join(errors.New("hush"), fault.New(fault.InUse, "linked")), fault.InUse},
		"a bare error":      {errors.New("hush"), fault.Internal},
		"a foreign status":  {status.Error(codes.NotFound, "hush"), fault.Internal},
		"its own deadline":  {context.DeadlineExceeded, fault.ReadTimeout},
		"a cancelled child": {context.Canceled, fault.ReadTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			f.catalog.get = answer(row.err)
			err := f.get(t.Context())
			if reasonOf(err) != row.want || status.Code(err) != row.want.Code() {
				t.Errorf("answered %v", err)
			}
			wire, marshalErr := proto.Marshal(status.Convert(err).Proto())
			if marshalErr != nil || strings.Contains(string(wire), "hush") {
				t.Errorf("the cause is shown: %v", err)
			}
		})
	}
}

func TestAPanicIsAnsweredLoggedAndSurvived(t *testing.T) {
	f := start(t, nil)
	f.catalog.get = func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		panic("hush")
	}
	if err := f.get(t.Context()); reasonOf(err) != fault.Internal || strings.Contains(err.Error(), "hush") {
		t.Errorf("answered %v", err)
	}
	f.catalog.get = answer(nil)
	if err := f.get(t.Context()); err != nil {
		t.Error(err)
	}
	line := f.log.lines(t)[0]
	if text, _ := line["error"].(string); line["level"] != "ERROR" || !strings.Contains(text, "panic: hush") || !strings.Contains(text, "interceptor_test.go") {
		t.Errorf("logged %v", line)
	}
}

func TestEachCallIsOneLine(t *testing.T) {
	f := start(t, withTokens(t))
	const bearer = "Bearer fake-viewer"
	f.catalog.get = answer(nil)
	_ = f.get(t.Context(), "authorization", bearer, RequestIDHeader, "r-1")
	f.catalog.get = answer(fault.New(fault.InUse, "linked").WithCause(errors.New("why")))
	_ = f.get(t.Context(), "authorization", bearer, RequestIDHeader, "r-2")
	_ = f.get(t.Context(), RequestIDHeader, "r-3")
	f.catalog.get = answer(errors.New("broken"))
	_ = f.get(t.Context(), "authorization", bearer, RequestIDHeader, "r-4")
	want := []map[string]any{
		{"level": "INFO", "code": "OK", "principal": "the-viewer", "request_id": "r-1", "reason": nil},
		{"level": "INFO", "code": "FailedPrecondition", "principal": "the-viewer", "request_id": "r-2", "reason": "IN_USE"},
		{"level": "INFO", "code": "Unauthenticated", "principal": "", "request_id": "r-3", "reason": "UNAUTHENTICATED"},
		{"level": "ERROR", "code": "Internal", "principal": "the-viewer", "request_id": "r-4", "reason": "INTERNAL"},
	}
	lines := f.log.lines(t)
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i, line := range lines {
		for key, value := range want[i] {
			if line[key] != value {
				t.Errorf("%s: %s is %v, not %v", want[i]["request_id"], key, line[key], value)
			}
		}
		if _, ok := line["duration"].(float64); !ok || line["method"] != getMethod || !strings.HasPrefix(line["peer"].(string), "127.0.0.1:") {
			t.Errorf("incomplete: %v", line)
		}
	}
	if text, _ := lines[1]["error"].(string); !strings.Contains(text, "why") {
		t.Errorf("the cause is not in the log: %v", lines[1])
	}
}

func TestEachCallIsMeasured(t *testing.T) {
	f := start(t, nil)
	_ = f.get(t.Context())
	f.catalog.get = answer(fault.New(fault.ServerNotFound, "none"))
	_ = f.get(t.Context())
	_ = f.get(t.Context())
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "commandcenter_grpc_server_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			counted[labels["method"]+" "+labels["code"]] = metric.GetHistogram().GetSampleCount()
		}
	}
	if want := map[string]uint64{getMethod + " OK": 1, getMethod + " NotFound": 2}; !reflect.DeepEqual(counted, want) {
		t.Errorf("counted %v", counted)
	}
}

func TestRequestIDs(t *testing.T) {
	f := start(t, nil)
	var seen string
	f.catalog.get = func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		seen = RequestID(ctx)
		return &registryv1.GetServerResponse{}, nil
	}
	for given, kept := range map[string]bool{
		"a": true, "A.b_c-9": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a;drop": false, "a/b": false, "%0a": false,
	} {
		if err := f.get(t.Context(), RequestIDHeader, given); err != nil {
			t.Fatal(err)
		}
		if (seen == given) != kept || !requestIDs.MatchString(seen) {
			t.Errorf("%q becomes %q", given, seen)
		}
	}
	if a, b := NewRequestID("a\nb"), NewRequestID(""); a == b || !requestIDs.MatchString(a) {
		t.Errorf("made %q and %q", a, b)
	}
	if RequestID(t.Context()) != "" {
		t.Error("an id outside a request")
	}
}

// Each call has a deadline: the caller's, or the method's where that is shorter.
func TestDeadlines(t *testing.T) {
	const short, long = time.Minute, 2 * time.Hour
	var left time.Duration
	for name, row := range map[string]struct {
		server map[string]time.Duration
		caller time.Duration
		above  time.Duration
		most   time.Duration
	}{
		"the default":          {nil, long, defaultDeadline / 2, defaultDeadline},
		"the method's":         {map[string]time.Duration{getMethod: short}, long, short / 2, short},
		"the caller's":         {map[string]time.Duration{getMethod: long}, short, short / 2, short},
		"another method's":     {map[string]time.Duration{acceptMethod: short}, long, defaultDeadline / 2, defaultDeadline},
		"none from the caller": {nil, 0, defaultDeadline / 2, defaultDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(options *Options) { options.Deadlines = row.server })
			f.catalog.get = func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
				deadline, ok := ctx.Deadline()
				if left = time.Until(deadline); !ok {
					left = 0
				}
				return &registryv1.GetServerResponse{}, nil
			}
			ctx := t.Context()
			if row.caller > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, row.caller)
				defer cancel()
			}
			if _, err := registryv1.NewServerCatalogClient(f.conn).GetServer(ctx, &registryv1.GetServerRequest{Name: "BM-1"}); err != nil {
				t.Fatal(err)
			}
			if left > row.most || left < row.above {
				t.Errorf("%s are left", left)
			}
		})
	}
}

// Every violation is told at once, each with a pointer as a REST caller knows the field, and the handler is not reached.
func TestI17_EveryFieldAtFaultIsNamed(t *testing.T) {
	f := start(t, nil)
	client := registryv1.NewAgentRegistryClient(f.conn)
	_, err := client.AcceptAgent(t.Context(), &registryv1.AcceptAgentRequest{
		Name: strings.Repeat("n", 129), Actor: "alice", CreateServer: &registryv1.NewServer{}, ServerName: strings.Repeat("s", 257),
	})
	found := fault.From(err)
	var pointers []string
	for _, field := range found.Fields {
		pointers = append(pointers, field.Pointer)
		if field.Detail == "" || !strings.Contains(found.Detail, field.Pointer+": "+field.Detail) {
			t.Errorf("%q does not tell %+v", found.Detail, field)
		}
	}
	want := []string{"/name", "/serverName", "/createServer/url"}
	if found.Reason != fault.InvalidArgument || !reflect.DeepEqual(pointers, want) || f.agents.accepted != 0 {
		t.Errorf("answered %+v, accepted %d", found, f.agents.accepted)
	}
	if got := found.Fields[len(found.Fields)-1].Detail; got != "must not be empty" {
		t.Errorf("an empty URL %s", got)
	}
}

// watchDesc is a streaming service, so that streams are held to the same chain as calls.
func watchDesc(handler func(grpc.ServerStream) error) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Watch", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Watch", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return handler(stream) },
		}},
	}
}

func TestStreamsGoThroughTheSameChain(t *testing.T) {
	var principal authn.Principal
	var id string
	var bounded bool
	handler := func(stream grpc.ServerStream) error {
		principal, _ = authn.PrincipalOf(stream.Context())
		id = RequestID(stream.Context())
		_, bounded = stream.Context().Deadline()
		for {
			request := &registryv1.AcceptAgentRequest{}
			if err := stream.RecvMsg(request); err != nil {
				return err
			}
			if request.GetName() == "panic" {
				panic("hush")
			}
			if err := stream.SendMsg(&registryv1.AcceptAgentResponse{ServerCreated: true}); err != nil {
				return err
			}
		}
	}
	f := start(t, withTokens(t), func(server *grpc.Server) { server.RegisterService(watchDesc(handler), struct{}{}) })
	open := func(pairs ...string) grpc.ClientStream {
		t.Helper()
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		stream, err := f.conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), pairs...), desc, watchMethod)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	send := func(stream grpc.ClientStream, name string) error {
		if err := stream.SendMsg(&registryv1.AcceptAgentRequest{Name: name, Actor: "alice"}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return stream.RecvMsg(&registryv1.AcceptAgentResponse{})
	}
	if err := send(open(), "BM-1"); reasonOf(err) != fault.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if err := send(open("authorization", "Bearer fake-heartbeat"), "BM-1"); reasonOf(err) != fault.PermissionDenied {
		t.Errorf("with another role: %v", err)
	}
	stream := open("authorization", "Bearer fake-viewer", RequestIDHeader, "r-9")
	if err := send(stream, "BM-1"); err != nil || principal.Name != "the-viewer" || id != "r-9" || !bounded {
		t.Errorf("%v as %+v, request %q, bounded %t", err, principal, id, bounded)
	}
	if err := send(stream, ""); reasonOf(err) != fault.InvalidArgument || fault.From(err).Fields[0].Pointer != "/name" {
		t.Errorf("a bad message: %v", err)
	}
	if err := send(open("authorization", "Bearer fake-viewer"), "panic"); reasonOf(err) != fault.Internal || strings.Contains(err.Error(), "hush") {
		t.Errorf("a panic: %v", err)
	}
}
