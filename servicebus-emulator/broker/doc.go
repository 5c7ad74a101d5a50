// Package broker holds the messages: topics that copy them to subscriptions, locks on messages and
// sessions, delivery counts, expiry, dead-letter queues, scheduled and deferred messages, duplicates, forwarding. It does
// no I/O and reads no clock but the injected one.
//
// A subscription behaves like a queue, as does a dead-letter queue: all three are a Queue here. Each has its own
// mutex, so that entities do not hold each other up. Mutexes are taken in this order: the broker's, a destination's
// (its admission first), a queue's, its dead-letter queue's. Nothing that leads to another destination (forwarding, a
// scheduled message's time) or out of the package (a consumer's Lost) happens with any of them held: it is put off
// until the last is free.
//
// Every operation on a message takes constant or logarithmic time. What is due at a time (message locks,
// session locks, expiry, scheduled messages) waits in one heap per queue, served by one timer.
package broker
