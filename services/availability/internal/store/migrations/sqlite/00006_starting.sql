-- +goose Up
-- When silence on the path counts again, while it proves itself after a start or an outage; NULL otherwise.
ALTER TABLE TblAvailabilityPath ADD COLUMN StartingUntil TEXT NULL;
