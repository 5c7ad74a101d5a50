//go:build break_settle

package ingest

const settlesAfterStore = false
