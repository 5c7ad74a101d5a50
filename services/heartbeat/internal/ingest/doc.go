// Package ingest takes heartbeats from the bus to the registry: receive, decode, record, and only then settle. It stores
// nothing itself. Replicas compete on one subscription, and every step may be repeated.
package ingest
