// Package store is the only owner of TblServer.Online and TblServerOfflineLog, and owns maintenance, the job's lease and the
// availability status. It is written once; each statement is a named file in both dialects.
//
// Times are the database's. Every transaction that changes something takes its rows in one order: the lease (of the job), TblServer,
// the one row of TblAvailabilityState, and then the others. That one row numbers what is shown (revision) and what operators did (acts);
// its lock makes the numbers visible in their order, and lets one operator at a time decide. Readers read it first, so that what comes
// meanwhile is seen again later and never missed.
package store
