-- +goose Up
ALTER TABLE TblAvailabilityState ADD COLUMN SeenAt TEXT NULL;
ALTER TABLE TblAvailabilityState ADD COLUMN SteppedAt TEXT NULL;
ALTER TABLE TblAvailabilityState ADD COLUMN StepMs INTEGER NULL;
ALTER TABLE TblAvailabilityPath ADD COLUMN BrokerAheadMs INTEGER NULL;
ALTER TABLE TblAvailabilityPath ADD COLUMN BrokerAheadWithinMs INTEGER NULL;
