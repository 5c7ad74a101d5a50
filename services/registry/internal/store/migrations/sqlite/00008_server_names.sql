-- +goose Up
-- Servers by name, as names are compared. It is derived, and may be emptied at any time.
CREATE TABLE TblServerName (
    ServerKey INTEGER NOT NULL PRIMARY KEY,
    Name      TEXT NOT NULL,
    Folded    TEXT NOT NULL,
    NameHash  TEXT NOT NULL
);

CREATE INDEX IX_TblServerName_NameHash ON TblServerName (NameHash);
