//go:build !break_settle

package ingest

// settlesAfterStore is the rule that nothing is settled before the registry answered for it (I-7). A build with the tag break_settle
// breaks it, so that chaos can be seen to notice.
const settlesAfterStore = true
