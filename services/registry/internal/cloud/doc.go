// Package cloud decides which control servers there are and which of them each agent works with. It is pure: it reads no clock and no
// database, and replicas with the same facts decide the same.
//
//	facts of members, now ──Judge──► Membership ──Repartition──► Partition ──Event──► what is recorded
//	                                                 ▲               ├─ Moves: the rows to write
//	directory committed before, agents ──────────────┘               └─ Directory ──List──► an agent's failover list
//
// Only a primary and a secondary are stored per agent; the rest of a list follows from the directory, so that a join writes few rows. Both
// are assigned alike: each server has a quota by its weight; agents stay where they are up to it; those drawn least to a server that has
// too many go, each to the server that lacks agents and draws it most, by rendezvous hash. For most agents of an evicted server that is their
// secondary, where they are already.
//
// What the specification leaves open, decided so:
//   - A group is a preference of its agents, and keeps nobody else off its servers. Agents without a group, and those of a group without
//     eligible servers, are one pool and use every active server, those of groups too.
//   - Each pool is balanced by itself: a server has its weighted quota, within one agent, of its own group's pool and of the general one.
//     A change in one group moves nobody of another. A group that is large for its servers is given more servers, or they a lower weight.
//   - A group's own standby servers are of its first tier, like the others there.
//   - An agent left over by the quotas stays where it is, if its server may have one more by any rounding: fractions come second.
//   - An agent whose primary changes holds no place among the agents of the new one: it never pushes away a secondary there.
//   - The tail weighs: should primary and secondary both fail, the load goes where the capacity is. In the assignment quotas weigh, and the
//     plain hash only chooses who goes where.
//   - Hashes are of names, not of ids: a control server that was removed and comes back by its name gets its places in the tails back.
//   - A control server in maintenance that is the last one stays in the lists, and so goes on serving.
//   - A freeze counts the listed servers in normal mode, and holds back evictions only. Those who fell silent count by their last renewal.
package cloud
