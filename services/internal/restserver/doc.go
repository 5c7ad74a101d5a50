// Package restserver is what our REST listeners have in common: a listener that answers every request with problem details, how
// problems and other answers are written, and how bodies and query parameters are read into messages of the contract, with errors that
// point at what the caller sent.
package restserver
