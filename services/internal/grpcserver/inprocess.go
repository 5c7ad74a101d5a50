package grpcserver

import (
	"context"
	"sync"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// InProcess serves calls from within the process: what Server does for a call, without a connection between.
type InProcess struct {
	*inprocgrpc.Channel
	calls sync.WaitGroup
}

// NewInProcess makes one; of the options, those about listening and draining mean nothing here. Services are registered on it, and
// it is the connection for their clients.
func NewInProcess(opts Options) (*InProcess, error) {
	chain, err := newChain(opts)
	if err != nil {
		return nil, err
	}
	p := &InProcess{}
	p.Channel = (&inprocgrpc.Channel{}).WithServerUnaryInterceptor(
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			p.calls.Add(1)
			defer p.calls.Done()
			return chain.unary(ctx, request, info, handler)
		}).WithServerStreamInterceptor(
		func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			p.calls.Add(1)
			defer p.calls.Done()
			return chain.stream(service, stream, info, handler)
		})
	return p, nil
}

// Run waits, when the context ends, for the calls that are under way: also those whose callers are gone.
func (p *InProcess) Run(ctx context.Context) error {
	<-ctx.Done()
	p.calls.Wait()
	return nil
}
