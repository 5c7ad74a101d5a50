IF OBJECT_ID(N'dbo.TblServer', N'U') IS NULL
    CREATE TABLE dbo.TblServer (
        ServerKey int IDENTITY(1,1) NOT NULL PRIMARY KEY,
        Name      nvarchar(128) NOT NULL,
        Url       nvarchar(2048) NULL,
        Type      nvarchar(128) NULL,
        Active    bit NOT NULL DEFAULT 1,
        Online    bit NOT NULL DEFAULT 0
    );

IF OBJECT_ID(N'dbo.TblServerOfflineLog', N'U') IS NULL
BEGIN
    CREATE TABLE dbo.TblServerOfflineLog (
        ServerKey  int NOT NULL,
        CreateDate datetime2(3) NOT NULL
    );
    CREATE INDEX IX_TblServerOfflineLog_ServerKey ON dbo.TblServerOfflineLog (ServerKey, CreateDate);
END;
