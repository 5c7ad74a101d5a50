// Package sqldb opens the database a URL names, SQL Server or SQLite, and runs statements that are kept by name in files of
// both dialects. Transactions are named by what they are for: View always rolls back, Change commits and is retried whole.
package sqldb
