-- +goose Up
-- What gateways noticed of agents that take commands over Service Bus. A table of its own, so that it does not meet the heartbeats' writes.
CREATE TABLE TblAgentReceiver (
    AgentKey        INTEGER NOT NULL PRIMARY KEY,
    AnsweredAt      TEXT NULL,
    Unanswered      INTEGER NOT NULL,
    UnansweredSince TEXT NULL
);
