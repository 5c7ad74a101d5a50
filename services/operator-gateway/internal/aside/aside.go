// Package aside does small things beside the requests that find them worth doing, such as telling the registry what was noticed. They are
// best effort: what is too much is dropped, and noticed again.
package aside

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/commandcenter/fleet/services/internal/agenthttp"
)

// Most is how many are done at once.
const Most = 32

// Aside does things beside requests. Its zero value is ready.
type Aside struct {
	doing atomic.Int64
	group sync.WaitGroup
}

// Do does it soon, within a few seconds, and returns at once. It reports false where it is dropped, since too many are being done.
func (a *Aside) Do(do func(context.Context)) bool {
	if a.doing.Add(1) > Most {
		a.doing.Add(-1)
		return false
	}
	a.group.Go(func() {
		defer a.doing.Add(-1)
		ctx, cancel := agenthttp.Detached(context.Background())
		defer cancel()
		do(ctx)
	})
	return true
}

// Wait waits until nothing is being done any more.
func (a *Aside) Wait() { a.group.Wait() }
