-- +goose Up
-- Servers by name, as names are compared. It is derived, and may be emptied at any time.
CREATE TABLE TblServerName (
    ServerKey INTEGER NOT NULL PRIMARY KEY,
    Name      TEXT NOT NULL,
    NameKey   TEXT NOT NULL
);

CREATE INDEX IX_TblServerName_NameKey ON TblServerName (NameKey);
