DECLARE @wanted TABLE (ServerKey int NOT NULL PRIMARY KEY, Online bit NOT NULL);
DECLARE @changed TABLE (ServerKey int NOT NULL, Online bit NOT NULL);
INSERT INTO @wanted (ServerKey, Online) SELECT v.ServerKey, v.Online FROM OPENJSON(@batch) WITH (ServerKey int '$[0]', Online bit '$[1]') v;
UPDATE dbo.TblServer SET Online = v.Online
OUTPUT inserted.ServerKey, inserted.Online INTO @changed
FROM (SELECT ServerKey, Online FROM @wanted) v
WHERE v.ServerKey = dbo.TblServer.ServerKey AND COALESCE(dbo.TblServer.Online, 0) <> v.Online AND dbo.TblServer.Type = N'BenefitManager';
SELECT ServerKey AS OwnResult, Online FROM @changed;
