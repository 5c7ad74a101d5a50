// Package rpc answers operator.v1: commands through the executor, decisions and lists through the registry. REST comes in
// through the same services.
package rpc
