// Package telemetry holds what a service shows of itself: its log, its metrics, and the admin listener that serves them
// with liveness and readiness.
package telemetry
