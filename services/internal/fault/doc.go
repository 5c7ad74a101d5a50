// Package fault holds the one table of reasons for which a request is not done, and the error that carries one.
// Handlers return *Error; gRPC turns it into a status with details, REST into problem details, both from here.
package fault
