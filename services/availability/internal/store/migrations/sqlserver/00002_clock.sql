-- +goose Up
ALTER TABLE dbo.TblAvailabilityState ADD SeenAt datetime2(3) NULL;
ALTER TABLE dbo.TblAvailabilityState ADD SteppedAt datetime2(3) NULL;
ALTER TABLE dbo.TblAvailabilityState ADD StepMs bigint NULL;
ALTER TABLE dbo.TblAvailabilityPath ADD BrokerAheadMs bigint NULL;
ALTER TABLE dbo.TblAvailabilityPath ADD BrokerAheadWithinMs bigint NULL;
