// Package bench measures the system as it is deployed: each service in a process of its own, the emulator and the load in
// this one. Every figure stands beside its target and, where there is one, a baseline from the same run.
package bench
