//go:build !chaos_clock

package sqldb

import "time"

// clockStep is how far chaos has stepped the database's clock: never, except in a build with the tag chaos_clock.
func clockStep() time.Duration { return 0 }
