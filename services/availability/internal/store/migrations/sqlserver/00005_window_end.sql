-- +goose Up
-- The wall time at which occurrences end; NULL where they last for a duration. DurationMs then is what they last without a change of clocks,
-- for the release before this one.
ALTER TABLE dbo.TblMaintenanceWindow ADD Ends nvarchar(8) NULL;

-- Which window was made under which Idempotency-Key. Kept for a day.
CREATE TABLE dbo.TblMaintenanceKey (
    IdempotencyKey nvarchar(36) NOT NULL PRIMARY KEY,
    WindowKey      bigint NOT NULL,
    RequestHash    nvarchar(64) NOT NULL,
    CreatedAt      datetime2(3) NOT NULL
);

CREATE INDEX IX_TblMaintenanceKey_CreatedAt ON dbo.TblMaintenanceKey (CreatedAt);
