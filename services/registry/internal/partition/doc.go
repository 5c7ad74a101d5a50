// Package partition is the job that spreads agents over the control servers, and knows the lists that follow. Every replica runs it, and none
// is asked first: all see the same facts, and of two that commit at once one wins.
//
//	every second: look ──► needed? ──debounce──► read all ──► cloud.Repartition ──► commit the movers, if the epoch is still the one read
//	                │
//	                └─► directory, if its version is another ──► List
//
// What is needed follows from what is stored, never from a message: a partition that failed is still needed at the next look.
package partition
