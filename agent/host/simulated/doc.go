// Package simulated is a host that behaves like a Windows machine with IIS: services take time to start and stop,
// and can hang or fail; application pools recycle; there are certificates, some of them expired, installed
// products, package sets, and IIS bindings of every shape that real ones have. It changes nothing but its own
// memory.
//
// What a host holds is drawn from a seed and its name: the same two give the same host.
package simulated
