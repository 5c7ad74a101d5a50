-- +goose Up
-- The wall time at which occurrences end; NULL where they last for a duration. DurationMs then is what they last without a change of clocks,
-- for the release before this one.
ALTER TABLE TblMaintenanceWindow ADD COLUMN Ends TEXT NULL;

-- Which window was made under which Idempotency-Key. Kept for a day.
CREATE TABLE TblMaintenanceKey (
    IdempotencyKey TEXT NOT NULL PRIMARY KEY,
    WindowKey      INTEGER NOT NULL,
    RequestHash    TEXT NOT NULL,
    CreatedAt      TEXT NOT NULL
);

CREATE INDEX IX_TblMaintenanceKey_CreatedAt ON TblMaintenanceKey (CreatedAt);
