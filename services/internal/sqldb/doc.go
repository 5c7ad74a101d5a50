// Package sqldb opens the database a URL names, SQL Server or SQLite, and runs statements that are kept by name in files of
// both dialects. Transactions are named by what they are for: View always rolls back, Change commits and is retried whole.
//
// The database's clock is the only one that decides. Statements read it by SYSUTCDATETIME() and by 'now', and by nothing else.
// Tests step it: [DB.StepClock] within a process; in a build with the tag chaos_clock, the file that the environment
// variable CHAOS_DATABASE_CLOCK names holds the step as a duration ("1h", "-90s"), and is read again for each statement. Replace
// that file by a rename, so that no process reads half of it.
package sqldb
