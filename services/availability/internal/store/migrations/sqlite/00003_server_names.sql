-- +goose Up
-- Servers by name, as names are compared. It is derived, and may be emptied at any time.
CREATE TABLE TblAvailabilityServerName (
    ServerKey INTEGER NOT NULL PRIMARY KEY,
    Name      TEXT NOT NULL,
    NameKey   TEXT NOT NULL
);

CREATE INDEX IX_TblAvailabilityServerName_NameKey ON TblAvailabilityServerName (NameKey);
