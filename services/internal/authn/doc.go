// Package authn tells who calls: bearer tokens from a file of hashes, reloaded when it changes, and the table
// that says which role each gRPC method needs. A token itself is never stored or logged.
package authn
