-- +goose Up
-- Servers by name, as names are compared. It is derived, and may be emptied at any time.
CREATE TABLE dbo.TblServerName (
    ServerKey bigint NOT NULL PRIMARY KEY,
    Name      nvarchar(max) COLLATE Latin1_General_BIN2 NOT NULL,
    NameKey   nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL
);

CREATE INDEX IX_TblServerName_NameKey ON dbo.TblServerName (NameKey);
