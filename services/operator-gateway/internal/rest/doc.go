// Package rest is the REST face of operator.v1: grpc-gateway over an in-memory connection to the same gRPC services, so that
// every interceptor runs, with errors as RFC 9457 problem details.
package rest
