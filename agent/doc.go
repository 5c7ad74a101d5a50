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
// A command is run only by the agent it names, and never started once its budget is over, however long the process, its machine or
// the network stood still, but for the window below. The budget counts from the moment at which the agent asked for the command. One that may have waited on its
// way is given back to the broker, which delivers it again only if its time to live is not over. Right before a command's message is
// settled, the broker's clock shows whether this machine's clocks counted all of the time. One window is left: a virtual machine all of
// whose clocks stop after that, while the message is settled or the write waits behind another, up to two seconds later, and over HTTP
// after the command's body was sent; it may start a command as late as it stood still. A write waits at most two seconds for the
// one before it, and is then refused as busy with nothing done. Reads wait for nothing.
//
// A command is begun at most once. With Config.JournalPath, a write is first recorded in the journal's file, then, if it
// came over Service Bus, its message is settled, then it is started, its outcome recorded, and the answer sent. A command
// id that comes a second time, over either transport and also after a crash, is answered with the outcome of the first,
// or with the fact that it was begun and that its outcome is not known. What can't be recorded is refused.
//
// What became of a command, the journal tells: GetCommand, or GET /agent/v1/commands/{id}.
//
// A restart of the service that the agent itself runs as is answered as accepted, then done; the next start completes it.
//
// When it stops, an agent refuses new commands, and finishes those that run within a grace.
//
// # Control servers
//
// An agent that is not on Service Bus may be heard by control servers instead (Config.Cloud). It makes a token, keeps it on disk, and
// registers with any of them; that gives it a list, which it also keeps. It sends its heartbeats to the first of the list, its primary.
// When that fails, it goes down the list; it looks at its primary now and then, and returns once that did well for a while. Who is busy
// is waited for, who drains is left. An agent that is refused says so in the log and in its Stats, and asks again now and then. Commands
// come over HTTP all the while. An agent on Service Bus that has a Cloud, too, keeps a list to fall back to.
//
// # How it is built
//
// heartbeat.go makes and sends heartbeats. session.go (Service Bus, over inbox.go) and http.go take commands in; both give them to
// the executor of command.go, which checks them (check.go), asks the journal whether they are new (journal.go in memory,
// durable.go and journalfile.go on disk), and runs them on the host (operation.go, restart.go). bus.go holds the connections, which any number of agents may share.
//
// failover.go has done what the state machine of internal/failover says, whose times failoverconfig.go has; ingress.go calls control
// servers and reads their answers, over the connections of cloud.go; membership.go is what is kept on disk.
package agent
