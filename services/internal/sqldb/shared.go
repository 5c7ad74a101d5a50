package sqldb

import (
	"context"
	"embed"
)

//go:embed shared
var sharedFiles embed.FS

// makeShared makes TblServer and TblServerOfflineLog where another codebase has not made them. Both services have them, and either may be the first
// to migrate, so that they are made here alone. A table that is there is left as it is.
func (db *DB) makeShared(ctx context.Context) error {
	text, err := sharedFiles.ReadFile("shared/" + string(db.Dialect) + ".sql")
	if err != nil {
		return err
	}
	_, err = db.write.ExecContext(ctx, string(text))
	return err
}
