-- +goose Up
CREATE TABLE dbo.TblRegistryClock (
    StateKey  int NOT NULL PRIMARY KEY,
    SeenAt    datetime2(3) NULL,
    SteppedAt datetime2(3) NULL,
    StepMs    bigint NULL
);

INSERT INTO dbo.TblRegistryClock (StateKey) VALUES (1);

ALTER TABLE dbo.TblIngestEvidence ADD BrokerAheadMs bigint NULL;
ALTER TABLE dbo.TblIngestEvidence ADD BrokerAheadWithinMs bigint NULL;
ALTER TABLE dbo.TblControlServer ADD ClockAheadMs bigint NULL;
ALTER TABLE dbo.TblControlServer ADD ClockAheadWithinMs bigint NULL;
