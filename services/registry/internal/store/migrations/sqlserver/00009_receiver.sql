-- +goose Up
-- What gateways noticed of agents that take commands over Service Bus. A table of its own, so that it does not meet the heartbeats' writes.
CREATE TABLE dbo.TblAgentReceiver (
    AgentKey        bigint NOT NULL PRIMARY KEY,
    AnsweredAt      datetime2(3) NULL,
    Unanswered      int NOT NULL,
    UnansweredSince datetime2(3) NULL
);
