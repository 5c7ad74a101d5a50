// Package management answers the requests that clients send to nodes rather than to queues: tokens to $cbs, and
// operations on an entity to its $management node. A request is a message, and so is its response; this package
// knows both and the broker, and nothing of links.
package management
