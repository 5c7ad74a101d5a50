// Package store is the only owner of TblAgent, of the tables of control servers, and of TblServer's Name, Url, Type and Active. It is written
// once; each statement is a named file in both dialects. It returns domain values and domain errors.
//
// # The order of locks
//
// A transaction takes what it takes in this order, so that of two none waits for what the other holds:
//
//  1. the names of servers (sp_getapplock, by the hash of the name, several in the order of their hashes), TblServer, TblServerName;
//  2. TblRegistryClock;
//  3. TblCloudState, TblAffinityGroup;
//  4. the members of the cloud (sp_getapplock), if control servers join or are removed;
//  5. TblAgent, by AgentKey where rows are written one by one;
//  6. TblControlServer, TblPartitionEvent;
//  7. TblAgentReceiver, TblFormerLink, TblIngestEvidence.
//
// What writes the cloud's state writes it first, a partition as well as an operator's change of a group and the removal of a control server. Rows of one
// statement are locked in the order of its plan, which only the server knows: a heartbeat batch and a change of the same agents' group may still
// deadlock, as may two operators who relink two agents to each other's rows. The server ends one of the two (1205) and the whole transaction is run
// again, which each of them allows: what it writes follows from what it reads.
//
// A column of a legacy table has the collation of another codebase. Its text is compared with ours as bytes (COLLATE Latin1_General_BIN2), or with a
// parameter, which takes the column's collation. Names are looked up by TblServerName's index on the folded name, a table of ours, since TblServer
// gets no index from us; the two conditions on TblServer.Name beside it are for rows that are not folded yet.
package store
