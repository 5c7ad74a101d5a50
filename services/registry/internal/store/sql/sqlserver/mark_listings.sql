DECLARE @marked TABLE (ControlServerKey bigint NOT NULL PRIMARY KEY, Listed bit NOT NULL, UnlistedAs nvarchar(32) NULL);
INSERT INTO @marked (ControlServerKey, Listed, UnlistedAs)
SELECT v.ControlServerKey, v.Listed, v.UnlistedAs
FROM OPENJSON(@batch) WITH (ControlServerKey bigint '$[0]', Listed bit '$[1]', UnlistedAs nvarchar(32) '$[2]') v;
UPDATE dbo.TblControlServer SET
    Listed     = m.Listed,
    UnlistedAt = CASE WHEN m.Listed = 0 THEN CAST(@now AS datetime2(3)) ELSE dbo.TblControlServer.UnlistedAt END,
    UnlistedAs = CASE WHEN m.Listed = 0 THEN m.UnlistedAs ELSE dbo.TblControlServer.UnlistedAs END
FROM @marked m
WHERE m.ControlServerKey = dbo.TblControlServer.ControlServerKey;
