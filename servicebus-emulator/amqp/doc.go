// Package amqp is the AMQP 1.0 wire format: types, frames, performatives, SASL frames and the sections of
// a message. It knows bytes only: no connection, no state, no clock.
//
// Encoding appends to a caller's slice. Decoding works in place on a caller's slice and is bounded by its
// length: no declared size or count, however large, makes it allocate more than a small multiple of the
// bytes that are really there.
//
// The format is OASIS AMQP 1.0 parts 1 (types), 2 (transport), 3 (messaging) and 5 (security).
package amqp
