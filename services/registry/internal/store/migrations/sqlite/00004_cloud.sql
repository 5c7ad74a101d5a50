-- +goose Up
CREATE TABLE TblControlServer (
    ControlServerKey INTEGER PRIMARY KEY AUTOINCREMENT,
    Name             TEXT NOT NULL,
    NameKey          TEXT NOT NULL UNIQUE,
    GrpcEndpoint     TEXT NOT NULL COLLATE NOCASE UNIQUE,
    RestEndpoint     TEXT NOT NULL DEFAULT '',
    Version          TEXT NOT NULL DEFAULT '',
    ProtocolMin      INTEGER NOT NULL,
    ProtocolMax      INTEGER NOT NULL,
    Mode             INTEGER NOT NULL DEFAULT 1,
    Weight           INTEGER NOT NULL DEFAULT 100,
    Standby          INTEGER NOT NULL DEFAULT 0,
    AffinityGroupKey INTEGER NULL,
    ChangedBy        TEXT NULL,
    DecisionVersion  INTEGER NOT NULL DEFAULT 1,
    RenewedAt        TEXT NOT NULL,
    Connected        INTEGER NOT NULL DEFAULT 0,
    Listed           INTEGER NOT NULL DEFAULT 0,
    UnlistedAt       TEXT NULL,
    UnlistedAs       TEXT NULL
);

CREATE TABLE TblAffinityGroup (
    GroupKey        INTEGER PRIMARY KEY AUTOINCREMENT,
    Name            TEXT NOT NULL,
    NameKey         TEXT NOT NULL UNIQUE,
    DecisionVersion INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE TblPartitionEvent (
    Epoch            INTEGER PRIMARY KEY,
    At               TEXT NOT NULL,
    Causes           TEXT NOT NULL,
    Agents           INTEGER NOT NULL,
    Placed           INTEGER NOT NULL,
    PrimariesMoved   INTEGER NOT NULL,
    SecondariesMoved INTEGER NOT NULL
);

CREATE INDEX IX_TblPartitionEvent_At ON TblPartitionEvent (At);

CREATE TABLE TblCloudState (
    StateKey         INTEGER PRIMARY KEY,
    Epoch            INTEGER NOT NULL DEFAULT 0,
    DirectoryVersion INTEGER NOT NULL DEFAULT 0,
    Directory        TEXT NULL,
    Agents           INTEGER NOT NULL DEFAULT 0,
    Requests         INTEGER NOT NULL DEFAULT 0,
    RequestsServed   INTEGER NOT NULL DEFAULT 0,
    RequestedBy      TEXT NULL
);

INSERT INTO TblCloudState (StateKey) VALUES (1);

-- Holds all that a partition reads of an agent, so that the rows themselves, with their bindings, are not read.
CREATE INDEX IX_TblAgent_Assignment ON TblAgent (PrimaryControlServerKey, SecondaryControlServerKey, AffinityGroupKey, NameKey);
CREATE INDEX IX_TblAgent_AffinityGroup ON TblAgent (AffinityGroupKey) WHERE AffinityGroupKey IS NOT NULL;
