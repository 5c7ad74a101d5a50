// Package conformance holds the emulator to clients that nobody here wrote: to what the documentation of azservicebus states,
// and to the Azure SDK for Node, which its tests install from npm.
package conformance
