// Package agent is the Go SDK of a CommandCenter agent: it announces a machine with heartbeats, and runs the
// commands that operators send to it. The machine itself is a host.Host that the caller provides.
//
//	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: secret})
//	...
//	a, err := agent.New(agent.Config{Name: "BM-0042", Host: machine, Bus: bus})
//	...
//	err = a.Run(ctx)
//
// # What an agent promises
//
// A command is run only by the agent it names, and never started once its budget is over; the budget is measured
// on this machine's monotonic clock from the moment the command arrived. A write waits at most two seconds for the
// one before it, and is then refused as busy with nothing done. Reads wait for nobody.
//
// A command is begun at most once. One that came over Service Bus is settled before it is started, so that after a
// crash it is not delivered again: it may be lost then, and whoever waits for it is told that it may have run. A
// command id that comes a second time, over either transport, is answered with the outcome of the first.
//
// When it stops, an agent refuses new commands, and finishes those that run within a grace.
//
// # How it is built
//
// heartbeat.go makes and sends heartbeats. session.go (Service Bus) and http.go take commands in; both give them to
// the executor of command.go, which checks them (check.go), asks the journal whether they are new (journal.go), and
// runs them on the host (operation.go). bus.go holds the connections, which any number of agents may share.
package agent
