// Package transport is the server's side of an AMQP 1.0 connection: protocol headers, SASL, sessions, links,
// credit, windows, settlement and idle time. It knows nothing of queues: what a link leads to is decided by an
// Acceptor, messages that arrive go to a Sink and messages that leave are pulled out of a Source.
//
// A connection has two goroutines. One reads frames and acts on them, calling sinks. The other writes: it
// pulls from the sources of links that have credit, and writes everything that gathered meanwhile in one
// go, so that a busy connection makes large writes and an idle one writes at once. Because messages
// are pulled only when the previous write is done, a peer that reads slowly is not buffered for.
//
// Conn.mu is a leaf: nothing outside this package is ever called with it held, so sources may call
// Link.Notify under locks of their own.
package transport
