-- +goose Up
-- The tables that another codebase has too are made before this, where they are not there: see package sqldb.
CREATE TABLE TblJobLease (
    Name         TEXT NOT NULL PRIMARY KEY,
    Holder       TEXT NOT NULL,
    FencingToken INTEGER NOT NULL,
    ExpiresAt    TEXT NOT NULL
);

INSERT INTO TblJobLease (Name, Holder, FencingToken, ExpiresAt) VALUES ('availability', '', 0, '1970-01-01T00:00:00.000Z');

CREATE TABLE TblAvailabilityStatus (
    ServerKey      INTEGER NOT NULL PRIMARY KEY,
    Verdict        INTEGER NOT NULL,
    Reason         TEXT NOT NULL,
    Detail         TEXT NOT NULL,
    OnlineDecided  INTEGER NOT NULL,
    Maintenance    INTEGER NOT NULL,
    Held           TEXT NOT NULL,
    HeldPath       INTEGER NOT NULL,
    HeardAt        TEXT NULL,
    HeardPath      INTEGER NOT NULL,
    Since          TEXT NOT NULL,
    SecondWriterAt TEXT NULL,
    Revision       INTEGER NOT NULL
);

CREATE INDEX IX_TblAvailabilityStatus_Revision ON TblAvailabilityStatus (Revision);

CREATE TABLE TblAvailabilityPath (
    Path          INTEGER NOT NULL PRIMARY KEY,
    FrozenSince   TEXT NULL,
    BrakeSince    TEXT NULL,
    BrakeProofs   INTEGER NOT NULL DEFAULT 0,
    BrakeJudgedAt TEXT NULL,
    BrakeOrder    INTEGER NOT NULL DEFAULT 0,
    OrderedBy     TEXT NULL,
    OrderedAt     TEXT NULL,
    Blind         TEXT NOT NULL DEFAULT '',
    Braked        INTEGER NOT NULL DEFAULT 0,
    CrowdOnline   INTEGER NOT NULL DEFAULT 0,
    CrowdSilent   INTEGER NOT NULL DEFAULT 0,
    Held          INTEGER NOT NULL DEFAULT 0
);

INSERT INTO TblAvailabilityPath (Path) VALUES (0), (1);

CREATE TABLE TblAvailabilityState (
    StateKey       INTEGER NOT NULL PRIMARY KEY CHECK (StateKey = 1),
    Revision       INTEGER NOT NULL,
    Acts           INTEGER NOT NULL,
    SecondWriterAt TEXT NULL
);

INSERT INTO TblAvailabilityState (StateKey, Revision, Acts) VALUES (1, 0, 0);

CREATE TABLE TblMaintenanceSwitch (
    ServerKey INTEGER NOT NULL PRIMARY KEY,
    IsOn      INTEGER NOT NULL,
    Reason    TEXT NOT NULL,
    EndAt     TEXT NULL,
    ChangedBy TEXT NOT NULL,
    ChangedAt TEXT NOT NULL,
    Version   INTEGER NOT NULL
);

CREATE TABLE TblMaintenanceWindow (
    WindowKey  INTEGER PRIMARY KEY AUTOINCREMENT,
    ServerKey  INTEGER NOT NULL,
    StartAt    TEXT NULL,
    EndAt      TEXT NULL,
    StartLocal TEXT NULL,
    Zone       TEXT NULL,
    RRule      TEXT NULL,
    DurationMs INTEGER NULL,
    Reason     TEXT NOT NULL,
    CreatedBy  TEXT NOT NULL,
    CreatedAt  TEXT NOT NULL,
    LastEndAt  TEXT NULL
);

CREATE INDEX IX_TblMaintenanceWindow_ServerKey ON TblMaintenanceWindow (ServerKey);
