package rest

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// eventTimeout is how long the next event may take to come and to be written; no budget is longer.
const eventTimeout = 5 * time.Minute

// batchRoute streams the events of a batch, one per line.
type batchRoute struct {
	*handler
	client operatorv1.AgentOperationsClient
}

func (b batchRoute) serve(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	fail := func(err error) { b.fail(r.Context(), nil, nil, w, r, err) }
	request := &operatorv1.BatchRunRequest{}
	if err := asJSON.Unmarshal(requestOf(r.Context()).body, request); err != nil && !errors.Is(err, io.EOF) {
		fail(status.Error(codes.InvalidArgument, err.Error()))
		return
	}
	ctx, err := runtime.AnnotateContext(r.Context(), b.mux, r, operatorv1.AgentOperations_BatchRun_FullMethodName)
	if err != nil {
		fail(err)
		return
	}
	stream, err := b.client.BatchRun(ctx, request)
	if err != nil {
		fail(err)
		return
	}
	control := http.NewResponseController(w)
	for begun := false; ; begun = true {
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout))
		event, err := stream.Recv()
		kept := requestOf(r.Context())
		kept.called = err == nil || errors.Is(err, io.EOF) || rpc.Answered(err)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && !begun:
			fail(err)
			return
		case err != nil: // what was answered so far cannot be taken back
			writeLine(w, newProblem(kept.id, fault.From(err)))
			return
		case !b.write(w, begun, event):
			return
		}
		_ = control.Flush()
	}
}

// write writes one event, and tells whether the caller still takes them.
func (b batchRoute) write(w http.ResponseWriter, begun bool, event *operatorv1.BatchRunEvent) bool {
	if !begun {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
	}
	line, err := asJSON.Marshal(event)
	if err != nil {
		return false
	}
	_, err = w.Write(append(line, '\n'))
	return err == nil
}
