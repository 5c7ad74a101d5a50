// Package standin is a cloud of control servers for tests of agents: they answer as real ones do, over real connections, and fail when told.
package standin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
)

// Key that the control servers want.
const Key = "fake-enrolment-key"

// Call is one that came to a control server, whatever it was answered.
type Call struct {
	Server, Method, Agent, Token, Etag string
	Heartbeat                          *agentv1.Heartbeat
}

// Cloud is control servers that share what they know.
type Cloud struct {
	t         testing.TB
	transport credentials.TransportCredentials
	servers   map[string]*Server

	mu     sync.Mutex
	tokens map[string]string // by lower-case name of the agent
	list   *agentv1.FailoverList
	calls  []Call
}

// Server is one of them.
type Server struct {
	heartbeatv1.UnimplementedAgentIngressServer
	cloud          *Cloud
	Name, Endpoint string

	mu            sync.Mutex
	grpc          *grpc.Server // nil: it is down
	served        chan struct{}
	conns         int // open
	pings         int
	draining      bool
	before, after func(ctx context.Context, call Call) error
}

// New starts control servers. Agents get them in this order.
func New(t testing.TB, names ...string) *Cloud {
	t.Helper()
	return start(t, insecure.NewCredentials(), names...)
}

// NewTLS starts control servers that speak TLS, and gives what agents must trust.
func NewTLS(t testing.TB, names ...string) (*Cloud, *tls.Config) {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	trust := x509.NewCertPool()
	trust.AddCert(certified.Certificate())
	return start(t, credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0]), names...), &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
}

func start(t testing.TB, transport credentials.TransportCredentials, names ...string) *Cloud {
	t.Helper()
	c := &Cloud{t: t, transport: transport, servers: map[string]*Server{}, tokens: map[string]string{}}
	for _, name := range names {
		s := &Server{cloud: c, Name: name, Endpoint: "127.0.0.1:0"}
		s.Revive()
		t.Cleanup(s.Kill)
		c.servers[name] = s
	}
	c.SetList("e1", names...)
	return c
}

// Server of that name.
func (c *Cloud) Server(name string) *Server { return c.servers[name] }

// KeyFile writes the key to a file.
func (c *Cloud) KeyFile() string {
	path := filepath.Join(c.t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(Key+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// SetList changes the list of all agents.
func (c *Cloud) SetList(etag string, names ...string) {
	list := &agentv1.FailoverList{Etag: etag}
	for _, name := range names {
		list.Servers = append(list.Servers, &agentv1.ControlServerAddress{Name: name, GrpcEndpoint: c.servers[name].Endpoint})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = list
}

// Forget an agent, as when an operator removes it.
func (c *Cloud) Forget(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, strings.ToLower(agent))
}

// Claim a name for another machine.
func (c *Cloud) Claim(agent, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[strings.ToLower(agent)] = token
}

// Calls so far, but pings.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Revive a server on its address.
func (s *Server) Revive() {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.Endpoint)
	if err != nil {
		s.cloud.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Endpoint = listener.Addr().String()
	server, served := grpc.NewServer(grpc.Creds(s.cloud.transport)), make(chan struct{})
	s.grpc, s.served = server, served
	heartbeatv1.RegisterAgentIngressServer(server, s)
	go func() {
		defer close(served)
		_ = server.Serve(counted{listener, s})
	}()
}

// Kill a server: its connections break.
func (s *Server) Kill() {
	s.mu.Lock()
	server, served := s.grpc, s.served
	s.grpc = nil
	s.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
}

// Drain makes it ask agents to go elsewhere.
func (s *Server) Drain(draining bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = draining
}

// Before answers with an error before anything is stored; nil, or no error: it is stored.
func (s *Server) Before(answer func(ctx context.Context, call Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = answer
}

// After answers with an error after it was stored.
func (s *Server) After(answer func(ctx context.Context, call Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = answer
}

// Connections that are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Pings that it answered.
func (s *Server) Pings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pings
}

// Error is one of the control plane's, with its reason, and the delay it asks for; nil: none.
func Error(code codes.Code, reason string, retry *durationpb.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: "commandcenter", Reason: reason}}
	if retry != nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: retry})
	}
	s, err := status.New(code, "the stand-in says "+reason).WithDetails(details...)
	if err != nil {
		return err
	}
	return s.Err()
}

// Register implements heartbeatv1.AgentIngressServer.
func (s *Server) Register(ctx context.Context, r *heartbeatv1.RegisterRequest) (*heartbeatv1.RegisterResponse, error) {
	call := Call{s.Name, "Register", r.GetHeartbeat().GetName(), r.GetToken(), r.GetListEtag(), r.GetHeartbeat()}
	list, _, err := s.take(ctx, call, func() error {
		held, known := s.cloud.tokens[strings.ToLower(call.Agent)]
		switch {
		case protovalidate.Validate(r) != nil:
			return Error(codes.InvalidArgument, "INVALID_ARGUMENT", nil)
		case r.GetEnrolmentKey() != Key:
			return Error(codes.Unauthenticated, "UNAUTHENTICATED", nil)
		case known && held != call.Token:
			return Error(codes.FailedPrecondition, "IDENTITY_CONFLICT", nil)
		}
		s.cloud.tokens[strings.ToLower(call.Agent)] = call.Token
		return nil
	})
	return &heartbeatv1.RegisterResponse{FailoverList: list, ControlServer: s.Name}, err
}

// Heartbeat implements heartbeatv1.AgentIngressServer.
func (s *Server) Heartbeat(ctx context.Context, r *heartbeatv1.HeartbeatRequest) (*heartbeatv1.HeartbeatResponse, error) {
	call := Call{s.Name, "Heartbeat", r.GetHeartbeat().GetName(), r.GetToken(), r.GetListEtag(), r.GetHeartbeat()}
	list, draining, err := s.take(ctx, call, func() error {
		held, known := s.cloud.tokens[strings.ToLower(call.Agent)]
		switch {
		case protovalidate.Validate(r) != nil:
			return Error(codes.InvalidArgument, "INVALID_ARGUMENT", nil)
		case !known:
			return Error(codes.FailedPrecondition, "NOT_REGISTERED", nil)
		case held != call.Token:
			return Error(codes.Unauthenticated, "UNAUTHENTICATED", nil)
		}
		return nil
	})
	return &heartbeatv1.HeartbeatResponse{FailoverList: list, Draining: draining}, err
}

// GetFailoverList implements heartbeatv1.AgentIngressServer.
func (s *Server) GetFailoverList(ctx context.Context, r *heartbeatv1.GetFailoverListRequest) (*heartbeatv1.GetFailoverListResponse, error) {
	list, _, err := s.take(ctx, Call{s.Name, "GetFailoverList", r.GetName(), "", r.GetListEtag(), nil}, func() error {
		if protovalidate.Validate(r) != nil || r.GetEnrolmentKey() != Key {
			return Error(codes.Unauthenticated, "UNAUTHENTICATED", nil)
		}
		return nil
	})
	return &heartbeatv1.GetFailoverListResponse{FailoverList: list}, err
}

// Ping implements heartbeatv1.AgentIngressServer.
func (s *Server) Ping(context.Context, *heartbeatv1.PingRequest) (*heartbeatv1.PingResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings++
	return &heartbeatv1.PingResponse{ControlServer: s.Name, TakesAgents: !s.draining}, nil
}

// take one call.
func (s *Server) take(ctx context.Context, call Call, store func() error) (list *agentv1.FailoverList, draining bool, err error) {
	s.mu.Lock()
	before, after, draining := s.before, s.after, s.draining
	s.mu.Unlock()
	c := s.cloud
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	if before != nil {
		if err := before(ctx, call); err != nil {
			return nil, false, err
		}
	}
	c.mu.Lock()
	err = store()
	if list = c.list; list.GetEtag() == call.Etag {
		list = nil
	}
	c.mu.Unlock()
	if err == nil && after != nil {
		err = after(ctx, call)
	}
	return list, draining, err
}

// counted is a listener that counts its open connections.
type counted struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, fmt.Errorf("stand-in %s: %w", c.server.Name, err)
	}
	c.server.count(1)
	return &countedConn{Conn: conn, server: c.server}, nil
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns += n
}

type countedConn struct {
	net.Conn
	server *Server
	once   sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.server.count(-1) })
	return c.Conn.Close()
}
