// Package chaos breaks a running system on purpose, while heartbeats and commands flow, and then counts what was lost, run twice
// or told wrongly.
//
// The emulator is in this process, so that it can be broken; each service is in a process of its own, so that it can be killed;
// the agents that take commands share one more. Each job that a command asks for has a name of its own, and the machine that does
// it writes a line to a file: what was done is known whatever anybody answers.
package chaos
