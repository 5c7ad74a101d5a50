// Package rpc answers the registry's gRPC services from its store: one file for each group of calls, one place that maps
// domain errors, one place that turns domain values into messages.
package rpc
