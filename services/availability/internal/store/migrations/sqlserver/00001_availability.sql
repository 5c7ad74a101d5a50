-- +goose Up
-- The tables that another codebase has too are made before this, where they are not there: see package sqldb.
CREATE TABLE dbo.TblJobLease (
    Name         nvarchar(128) NOT NULL PRIMARY KEY,
    Holder       nvarchar(256) NOT NULL,
    FencingToken bigint NOT NULL,
    ExpiresAt    datetime2(3) NOT NULL
);

INSERT INTO dbo.TblJobLease (Name, Holder, FencingToken, ExpiresAt) VALUES (N'availability', N'', 0, '1970-01-01T00:00:00.000');

CREATE TABLE dbo.TblAvailabilityStatus (
    ServerKey      int NOT NULL PRIMARY KEY,
    Verdict        int NOT NULL,
    Reason         nvarchar(64) NOT NULL,
    Detail         nvarchar(2048) NOT NULL,
    OnlineDecided  bit NOT NULL,
    Maintenance    bit NOT NULL,
    Held           nvarchar(16) NOT NULL,
    HeldPath       int NOT NULL,
    HeardAt        datetime2(3) NULL,
    HeardPath      int NOT NULL,
    Since          datetime2(3) NOT NULL,
    SecondWriterAt datetime2(3) NULL,
    Revision       bigint NOT NULL
);

CREATE INDEX IX_TblAvailabilityStatus_Revision ON dbo.TblAvailabilityStatus (Revision);

CREATE TABLE dbo.TblAvailabilityPath (
    Path          int NOT NULL PRIMARY KEY,
    FrozenSince   datetime2(3) NULL,
    BrakeSince    datetime2(3) NULL,
    BrakeProofs   int NOT NULL DEFAULT 0,
    BrakeJudgedAt datetime2(3) NULL,
    BrakeOrder    int NOT NULL DEFAULT 0,
    OrderedBy     nvarchar(512) NULL,
    OrderedAt     datetime2(3) NULL,
    Blind         nvarchar(128) NOT NULL DEFAULT N'',
    Braked        bit NOT NULL DEFAULT 0,
    CrowdOnline   int NOT NULL DEFAULT 0,
    CrowdSilent   int NOT NULL DEFAULT 0,
    Held          int NOT NULL DEFAULT 0
);

INSERT INTO dbo.TblAvailabilityPath (Path) VALUES (0), (1);

CREATE TABLE dbo.TblAvailabilityState (
    StateKey       int NOT NULL PRIMARY KEY,
    Revision       bigint NOT NULL,
    Acts           bigint NOT NULL,
    SecondWriterAt datetime2(3) NULL
);

INSERT INTO dbo.TblAvailabilityState (StateKey, Revision, Acts) VALUES (1, 0, 0);

CREATE TABLE dbo.TblMaintenanceSwitch (
    ServerKey int NOT NULL PRIMARY KEY,
    IsOn      bit NOT NULL,
    Reason    nvarchar(2048) NOT NULL,
    EndAt     datetime2(3) NULL,
    ChangedBy nvarchar(512) NOT NULL,
    ChangedAt datetime2(3) NOT NULL,
    Version   bigint NOT NULL
);

CREATE TABLE dbo.TblMaintenanceWindow (
    WindowKey  bigint IDENTITY(1,1) NOT NULL PRIMARY KEY,
    ServerKey  int NOT NULL,
    StartAt    datetime2(3) NULL,
    EndAt      datetime2(3) NULL,
    StartLocal nvarchar(32) NULL,
    Zone       nvarchar(64) NULL,
    RRule      nvarchar(500) NULL,
    DurationMs bigint NULL,
    Reason     nvarchar(2048) NOT NULL,
    CreatedBy  nvarchar(512) NOT NULL,
    CreatedAt  datetime2(3) NOT NULL,
    LastEndAt  datetime2(3) NULL
);

CREATE INDEX IX_TblMaintenanceWindow_ServerKey ON dbo.TblMaintenanceWindow (ServerKey);
