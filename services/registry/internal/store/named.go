package store

import "database/sql"

func named(name string, value any) sql.NamedArg { return sql.Named(name, value) }

// flagOf is a condition as both dialects take it.
func flagOf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
