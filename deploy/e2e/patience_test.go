package e2e

import "time"

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 2 * time.Minute
