-- +goose Up
CREATE TABLE TblRegistryClock (
    StateKey  INTEGER NOT NULL PRIMARY KEY CHECK (StateKey = 1),
    SeenAt    TEXT NULL,
    SteppedAt TEXT NULL,
    StepMs    INTEGER NULL
);

INSERT INTO TblRegistryClock (StateKey) VALUES (1);

ALTER TABLE TblIngestEvidence ADD COLUMN BrokerAheadMs INTEGER NULL;
ALTER TABLE TblIngestEvidence ADD COLUMN BrokerAheadWithinMs INTEGER NULL;
ALTER TABLE TblControlServer ADD COLUMN ClockAheadMs INTEGER NULL;
ALTER TABLE TblControlServer ADD COLUMN ClockAheadWithinMs INTEGER NULL;
