-- +goose Up
-- The tables that another codebase has too are made before this, where they are not there: see package sqldb.
CREATE TABLE dbo.TblAgent (
    AgentKey               bigint IDENTITY(1,1) NOT NULL PRIMARY KEY,
    Name                   nvarchar(128) NOT NULL,
    NameKey                nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL,
    ReportedName           nvarchar(128) NOT NULL,
    Hostname               nvarchar(512) NOT NULL DEFAULT N'',
    ServerKey              int NULL,
    RegistrationState      int NOT NULL,
    DecidedBy              nvarchar(256) NULL,
    DecidedAt              datetime2(3) NULL,
    DecisionVersion        bigint NOT NULL DEFAULT 1,
    OnServiceBus           bit NOT NULL,
    HttpBaseUrl            nvarchar(2048) COLLATE Latin1_General_BIN2 NULL,
    ReportedHttpBaseUrl    nvarchar(4000) NULL,
    HttpVerifiedAt         datetime2(3) NULL,
    HttpVerification       int NOT NULL DEFAULT 0,
    HttpVerificationDetail nvarchar(2048) NULL,
    HttpClaimedUntil       datetime2(3) NULL,
    LastBusHeartbeatAt     datetime2(3) NULL,
    LastDirectHeartbeatAt  datetime2(3) NULL,
    BootId                 nvarchar(128) NOT NULL DEFAULT N'',
    Sequence               bigint NOT NULL DEFAULT 0,
    ObservedAt             datetime2(3) NULL,
    ReportedAt             datetime2(3) NULL,
    AgentVersion           nvarchar(128) NOT NULL DEFAULT N'',
    Capabilities           nvarchar(max) NULL,
    EarlierBoots           nvarchar(max) NULL,
    BootTurns              int NOT NULL DEFAULT 0,
    IdentityConflictAt     datetime2(3) NULL,
    IisBindings            nvarchar(max) NULL,
    IisBindingCount        int NOT NULL DEFAULT 0,
    IisBindingsBootId      nvarchar(128) NOT NULL DEFAULT N'',
    IisBindingsSequence    bigint NOT NULL DEFAULT 0,
    IisBindingsObservedAt  datetime2(3) NULL,
    TokenHash              varbinary(64) NULL,
    CreatedAt              datetime2(3) NOT NULL,
    HeartbeatVersion       bigint NOT NULL DEFAULT 1
);

CREATE UNIQUE INDEX IX_TblAgent_NameKey ON dbo.TblAgent (NameKey);
CREATE UNIQUE INDEX IX_TblAgent_ServerKey ON dbo.TblAgent (ServerKey) WHERE ServerKey IS NOT NULL;
CREATE INDEX IX_TblAgent_State ON dbo.TblAgent (RegistrationState, NameKey);
CREATE INDEX IX_TblAgent_Verification ON dbo.TblAgent (HttpVerification, HttpVerifiedAt) WHERE HttpBaseUrl IS NOT NULL;

CREATE TABLE dbo.TblIngestEvidence (
    Path                int NOT NULL,
    ConsumerId          nvarchar(128) NOT NULL,
    AliveAt             datetime2(3) NOT NULL,
    HealthySince        datetime2(3) NULL,
    CanaryRoundTripMs   bigint NULL,
    OldestMessageAgeMs  bigint NULL,
    SinceLastReceiveMs  bigint NULL,
    CONSTRAINT PK_TblIngestEvidence PRIMARY KEY (Path, ConsumerId)
);
