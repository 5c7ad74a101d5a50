// Package broker holds the messages: topics that copy them to subscriptions, locks on messages and
// sessions, delivery counts, expiry and dead-letter queues. It does no I/O and reads no clock but the injected one.
//
// A subscription behaves like a queue, as does a dead-letter queue: all three are a Queue here. Each has its own
// mutex, so that entities do not hold each other up; a queue's mutex is taken before that of its
// dead-letter queue and never the other way round.
//
// Every operation on a message takes constant or logarithmic time. What is due at a time (message locks,
// session locks, expiry) waits in one heap per queue, served by one timer.
package broker
