// Package local runs the whole system in one process on loopback: the emulator, the registry on a SQLite file, the heartbeat
// service, the operator gateway, and simulated agents. It is the same code that is deployed, with embedded defaults.
package local
