// Package failover decides which control server an agent works with. It is pure: it reads no clock, draws no random numbers, starts
// nothing and waits for nothing. Events come in with the present instant and a source of numbers in [0, 1); actions come out, for
// somebody else to perform; and WakeAt says when the next Tick is due.
//
//	            answered                    returns, once its primary was good for a while
//	searching ───────────► working with ◄──────────────┐
//	  ▲  │ next server       │   │ not its primary ──► probing
//	  └──┘ down, draining    │   │ every interval ───► Heartbeat
//	  ▲                      │
//	  └──────────────────────┘ down, draining, busy three times, gone from the list
//
// Direct is an agent that is heard by control servers. Bus is one that is heard over Service Bus, and only asks for its list, so
// that it could fall back to it. Both go by the same rules when a call fails (search.go):
//
//	down, while working        the next of the list within FailoverGrace
//	down, while searching      the next within 0.2 to 1 of ServerInterval
//	draining                   the next within 0.2 to 1 of ServerInterval
//	busy                       the same once more, after the delay it asked for; the next after the third time
//	refused                    the same again, after RefusedInterval: all control servers share one database, so others refuse too
//	all failed                 a pass is over: from the top, within BackoffInterval, which doubles with each pass
//
// A pass goes once round the list, from the server after the one that failed, and then over the registration endpoints in random
// order. At most one call is under way at a time, and beside it at most one probe.
//
// Who performs the actions sends each outcome back as an event:
//
//	for {
//		select {
//		case e = <-outcomes: // of calls and probes, each of which ends, by a timeout at the latest
//		case <-timer: // set to WakeAt
//			e = failover.Tick{}
//		}
//		d, actions = d.On(e, time.Now(), rand.Float64)
//		…
//	}
//
// What the specification leaves open, decided so:
//   - A heartbeat is the connection: there is no call of its own to connect. One that failed goes to the next server instead.
//   - The pauses between servers double too after each pass in which all failed, up to ServerIntervalMax. An agent with a long list would
//     otherwise try it all again every minute, and a fleet would storm the servers that answer that the registry is down.
//   - Registration endpoints are only registered with. Heartbeats go to the servers of the list.
//   - An agent registers when it has no list, when no server of its list answers, and when a server says that it is not registered.
//   - Registering ends no outage: only a heartbeat that was answered lets the pauses be short again.
//   - An agent returns by sending a heartbeat to its primary while it still has the other server. If that fails, it stays, and the
//     probes have to prove the primary anew.
//   - The jitter of a return is uniform over one ProbeInterval; probes go on meanwhile, and a bad one calls it off.
//   - The first heartbeat with a server is followed by one after a uniform share of the interval, so that agents that came together do
//     not beat together.
//   - A busy server that names no delay gets BackoffInterval. A delay counts up to BackoffIntervalMax, and gets up to a quarter more.
//   - The list that was received last counts, whatever its epoch was: after a restore of the database epochs go back.
package failover
