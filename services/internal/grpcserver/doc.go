// Package grpcserver builds every gRPC server of ours the same way: one order of interceptors (recover, request id and log,
// metrics, authentication, policy and deadline, validation), health per service, a bounded drain.
package grpcserver
