// Package sweep is the job that decides TblServer.Online. Every replica competes for its lease; the holder sweeps.
//
//	lease ──► read: database ∥ registry ──► verdict.Sweep ──► write under the lease's token, only what changed
//	             ▲                             ▲
//	   maintenance windows             rounds of HTTP probes, beside the sweeps
//
// A replica that was stopped, slow or cut off writes nothing with a lease it has lost (I-15): the write itself asks for it.
package sweep
