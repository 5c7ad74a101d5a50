-- +goose Up
CREATE TABLE dbo.TblControlServer (
    ControlServerKey bigint IDENTITY(1,1) NOT NULL PRIMARY KEY,
    Name             nvarchar(128) NOT NULL,
    NameKey          nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL,
    GrpcEndpoint     nvarchar(256) COLLATE Latin1_General_CI_AS NOT NULL,
    RestEndpoint     nvarchar(512) NOT NULL DEFAULT N'',
    Version          nvarchar(64) NOT NULL DEFAULT N'',
    ProtocolMin      int NOT NULL,
    ProtocolMax      int NOT NULL,
    Mode             int NOT NULL DEFAULT 1,
    Weight           int NOT NULL DEFAULT 100,
    Standby          bit NOT NULL DEFAULT 0,
    AffinityGroupKey bigint NULL,
    ChangedBy        nvarchar(256) NULL,
    DecisionVersion  bigint NOT NULL DEFAULT 1,
    RenewedAt        datetime2(3) NOT NULL,
    Connected        int NOT NULL DEFAULT 0,
    Listed           bit NOT NULL DEFAULT 0,
    UnlistedAt       datetime2(3) NULL,
    UnlistedAs       nvarchar(32) NULL
);

CREATE UNIQUE INDEX IX_TblControlServer_NameKey ON dbo.TblControlServer (NameKey);
CREATE UNIQUE INDEX IX_TblControlServer_GrpcEndpoint ON dbo.TblControlServer (GrpcEndpoint);

CREATE TABLE dbo.TblAffinityGroup (
    GroupKey        bigint IDENTITY(1,1) NOT NULL PRIMARY KEY,
    Name            nvarchar(128) NOT NULL,
    NameKey         nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL,
    DecisionVersion bigint NOT NULL DEFAULT 1
);

CREATE UNIQUE INDEX IX_TblAffinityGroup_NameKey ON dbo.TblAffinityGroup (NameKey);

CREATE TABLE dbo.TblPartitionEvent (
    Epoch            bigint NOT NULL PRIMARY KEY,
    At               datetime2(3) NOT NULL,
    Causes           nvarchar(max) NOT NULL,
    Agents           int NOT NULL,
    Placed           int NOT NULL,
    PrimariesMoved   int NOT NULL,
    SecondariesMoved int NOT NULL
);

CREATE INDEX IX_TblPartitionEvent_At ON dbo.TblPartitionEvent (At);

CREATE TABLE dbo.TblCloudState (
    StateKey         int NOT NULL PRIMARY KEY,
    Epoch            bigint NOT NULL DEFAULT 0,
    DirectoryVersion bigint NOT NULL DEFAULT 0,
    Directory        nvarchar(max) NULL,
    Agents           int NOT NULL DEFAULT 0,
    Requests         bigint NOT NULL DEFAULT 0,
    RequestsServed   bigint NOT NULL DEFAULT 0,
    RequestedBy      nvarchar(256) NULL
);

INSERT INTO dbo.TblCloudState (StateKey) VALUES (1);

-- Holds all that a partition reads of an agent, so that the rows themselves, with their bindings, are not read.
CREATE INDEX IX_TblAgent_Assignment ON dbo.TblAgent (PrimaryControlServerKey) INCLUDE (SecondaryControlServerKey, AffinityGroupKey, NameKey);
CREATE INDEX IX_TblAgent_AffinityGroup ON dbo.TblAgent (AffinityGroupKey) WHERE AffinityGroupKey IS NOT NULL;
