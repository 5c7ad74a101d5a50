-- +goose Up
-- When silence on the path counts again, while it proves itself after a start or an outage; NULL otherwise.
ALTER TABLE dbo.TblAvailabilityPath ADD StartingUntil datetime2(3) NULL;
