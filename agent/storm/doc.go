// Package storm simulates what a fleet of direct agents does to its control servers when some of them fail: how many connections
// they get within a second, and for how long agents are not heard. It runs the agents' own decisions (internal/failover) in virtual
// time, draws all chance from a seed, and needs no network: the same scenario gives the same figures.
//
//	figures, err := storm.Run(storm.Scenario{Agents: 100_000, Servers: 50, Failing: 1, Watch: time.Minute})
//
// Lists are ideal: primaries are spread evenly, and so are the secondaries of each primary's agents. The fleet settles first. What is
// measured begins when servers fail; or when they are back, with Recovery.
package storm
