-- +goose Up
-- Servers by name, as names are compared. It is derived, and may be emptied at any time.
CREATE TABLE dbo.TblAvailabilityServerName (
    ServerKey bigint NOT NULL PRIMARY KEY,
    Name      nvarchar(max) COLLATE Latin1_General_BIN2 NOT NULL,
    NameKey   nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL
);

CREATE INDEX IX_TblAvailabilityServerName_NameKey ON dbo.TblAvailabilityServerName (NameKey);
