// Package verdict decides which servers are Online. It is pure: it reads no clock, and the facts of one
// sweep come in whole, read from one clock (the registry's), whose present is Input.Now.
//
//	facts of an agent ──Judge──► available | unavailable | unknown ──Sweep──► changes of Online, offline log
//	evidence of a path ──────────► frozen ──┐                          ▲
//	silence of its servers ──────► braked ──┴── hold offline for silence ┘
//
// Maintenance and recoveries always apply. Only silence needs proof that we were listening (I-11).
//
// What the specification leaves open, decided so:
//   - A server heard on both paths needs both proven before silence turns it offline; the brake is that of the path it was last heard
//     on. A path that an agent has left for good must be left out by the caller.
//   - An operator's Apply overrides the brake, never a freeze, and ends with the present mass of silent servers; Hold lasts until it is
//     taken back.
//   - A blind sweep, a registry that did not answer, or a gap in a path's health between two sweeps starts the brake's proof anew. A
//     sweep less than half an interval after the last one proves nothing.
//   - A removed or rejected agent needs no proof and is never held.
package verdict
