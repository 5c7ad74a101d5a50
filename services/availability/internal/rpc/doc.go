// Package rpc implements availability.v1.Availability over the store: what is available and why, the watch, the offline log,
// brakes, and maintenance. Nothing here decides; the job's sweeps obey what operators order through it.
package rpc
