// Package ingress is a control server as agents see it: it takes their heartbeats over gRPC and REST, gathers those of many agents
// into calls to the registry, and answers each once its heartbeat is stored. It stores nothing itself.
//
//	Rest ──► chain ──► Service ──► Gathering ──► registry
//	gRPC ──► chain ──┘    │
//	                      └── Membership says what the control server is in its cloud, Prover that it hears
package ingress
