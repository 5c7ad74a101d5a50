// Package verdict decides which servers are Online. It is pure: it reads no clock, and the facts of one
// sweep come in whole, read from one clock (the registry's), whose present is Input.Now.
//
//	facts of an agent ──Judge──► available | unavailable | unknown ──Sweep──► changes of Online, offline log
//	evidence of a path ──────────► frozen ──┐                          ▲
//	silence of its servers ──────► braked ──┴── hold offline for silence ┘
//
// Maintenance and recoveries always apply. Only silence needs proof that we were listening (I-11).
package verdict
