-- +goose Up
-- The tables that another codebase has too are made before this, where they are not there: see package sqldb.
CREATE INDEX IF NOT EXISTS IX_TblServer_Name ON TblServer (Name);

CREATE TABLE TblAgent (
    AgentKey               INTEGER PRIMARY KEY AUTOINCREMENT,
    Name                   TEXT NOT NULL,
    NameKey                TEXT NOT NULL UNIQUE,
    ReportedName           TEXT NOT NULL,
    Hostname               TEXT NOT NULL DEFAULT '',
    ServerKey              INTEGER NULL,
    RegistrationState      INTEGER NOT NULL,
    DecidedBy              TEXT NULL,
    DecidedAt              TEXT NULL,
    DecisionVersion        INTEGER NOT NULL DEFAULT 1,
    OnServiceBus           INTEGER NOT NULL,
    HttpBaseUrl            TEXT NULL,
    ReportedHttpBaseUrl    TEXT NULL,
    HttpVerifiedAt         TEXT NULL,
    HttpVerification       INTEGER NOT NULL DEFAULT 0,
    HttpVerificationDetail TEXT NULL,
    HttpClaimedUntil       TEXT NULL,
    LastBusHeartbeatAt     TEXT NULL,
    LastDirectHeartbeatAt  TEXT NULL,
    BootId                 TEXT NOT NULL DEFAULT '',
    Sequence               INTEGER NOT NULL DEFAULT 0,
    ObservedAt             TEXT NULL,
    ReportedAt             TEXT NULL,
    AgentVersion           TEXT NOT NULL DEFAULT '',
    Capabilities           TEXT NULL,
    EarlierBoots           TEXT NULL,
    BootTurns              INTEGER NOT NULL DEFAULT 0,
    IdentityConflictAt     TEXT NULL,
    IisBindings            TEXT NULL,
    IisBindingCount        INTEGER NOT NULL DEFAULT 0,
    IisBindingsBootId      TEXT NOT NULL DEFAULT '',
    IisBindingsSequence    INTEGER NOT NULL DEFAULT 0,
    IisBindingsObservedAt  TEXT NULL,
    TokenHash              BLOB NULL,
    CreatedAt              TEXT NOT NULL,
    HeartbeatVersion       INTEGER NOT NULL DEFAULT 1
);

CREATE UNIQUE INDEX IX_TblAgent_ServerKey ON TblAgent (ServerKey);
CREATE INDEX IX_TblAgent_State ON TblAgent (RegistrationState, NameKey);
CREATE INDEX IX_TblAgent_Verification ON TblAgent (HttpVerification, HttpVerifiedAt);

CREATE TABLE TblIngestEvidence (
    Path                INTEGER NOT NULL,
    ConsumerId          TEXT NOT NULL,
    AliveAt             TEXT NOT NULL,
    HealthySince        TEXT NULL,
    CanaryRoundTripMs   INTEGER NULL,
    OldestMessageAgeMs  INTEGER NULL,
    SinceLastReceiveMs  INTEGER NULL,
    PRIMARY KEY (Path, ConsumerId)
);
