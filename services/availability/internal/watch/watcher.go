package watch

import "context"

// maxBehind is how many polls with differences a watcher may leave unread: at least half a minute of not reading. It counts polls
// and not events, so that a mass of changes in one sweep is nobody's slowness. Batches are shared, and cost little to keep.
const maxBehind = 30

type watcher struct {
	batches chan []*Event
	ended   chan error // why Run has let it go; at most one
}

// Watch sends everything as it is, then what changes, until the context ends, send fails, or the feed ends it with ErrTooSlow,
// ErrStopping, or the source's error where nothing could be read to begin with. Its error says which.
func (f *Feed) Watch(ctx context.Context, send func(*Event) error) error {
	w := &watcher{batches: make(chan []*Event, maxBehind), ended: make(chan error, 1)}
	select {
	case f.join <- w:
	case <-f.stopping:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	defer f.left(w)
	for {
		batch, err := f.next(ctx, w)
		if err != nil {
			return err
		}
		for _, event := range batch {
			if err := f.over(ctx, w); err != nil { // between any two events, so that a stop waits for neither a slow reader nor a long batch
				return err
			}
			if err := send(event); err != nil {
				return err
			}
		}
	}
}

func (f *Feed) left(w *watcher) {
	select {
	case f.leave <- w:
	case <-f.stopping:
	}
}

func (f *Feed) next(ctx context.Context, w *watcher) ([]*Event, error) {
	select {
	case batch := <-w.batches:
		return batch, nil
	case err := <-w.ended:
		return nil, err
	case <-f.stopping:
		return nil, ErrStopping
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over says why the watch is over; nil while it is not.
func (f *Feed) over(ctx context.Context, w *watcher) error {
	select {
	case err := <-w.ended:
		return err
	case <-f.stopping:
		return ErrStopping
	default:
		return ctx.Err()
	}
}
