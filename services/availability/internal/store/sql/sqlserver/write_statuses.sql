DECLARE @given TABLE (
    ServerKey int NOT NULL PRIMARY KEY, Verdict int NOT NULL, Reason nvarchar(64) NOT NULL, Detail nvarchar(2048) NOT NULL, OnlineDecided bit NOT NULL,
    Maintenance bit NOT NULL, Held nvarchar(16) NOT NULL, HeldPath int NOT NULL, HeardAt datetime2(3) NULL, HeardPath int NOT NULL, Since datetime2(3) NOT NULL);
INSERT INTO @given (ServerKey, Verdict, Reason, Detail, OnlineDecided, Maintenance, Held, HeldPath, HeardAt, HeardPath, Since)
SELECT v.ServerKey, v.Verdict, v.Reason, v.Detail, v.OnlineDecided, v.Maintenance, v.Held, v.HeldPath, v.HeardAt, v.HeardPath, v.Since
FROM OPENJSON(@batch) WITH (
    ServerKey int '$[0]', Verdict int '$[1]', Reason nvarchar(64) '$[2]', Detail nvarchar(2048) '$[3]', OnlineDecided bit '$[4]',
    Maintenance bit '$[5]', Held nvarchar(16) '$[6]', HeldPath int '$[7]', HeardAt datetime2(3) '$[8]', HeardPath int '$[9]', Since datetime2(3) '$[10]') v;
UPDATE dbo.TblAvailabilityStatus SET
    Verdict = v.Verdict, Reason = v.Reason, Detail = v.Detail, OnlineDecided = v.OnlineDecided, Maintenance = v.Maintenance,
    Held = v.Held, HeldPath = v.HeldPath, HeardAt = v.HeardAt, HeardPath = v.HeardPath, Since = v.Since, Revision = @revision
FROM (SELECT * FROM @given) v
WHERE v.ServerKey = dbo.TblAvailabilityStatus.ServerKey;
INSERT INTO dbo.TblAvailabilityStatus (ServerKey, Verdict, Reason, Detail, OnlineDecided, Maintenance, Held, HeldPath, HeardAt, HeardPath, Since, Revision)
SELECT g.ServerKey, g.Verdict, g.Reason, g.Detail, g.OnlineDecided, g.Maintenance, g.Held, g.HeldPath, g.HeardAt, g.HeardPath, g.Since, @revision
FROM @given g
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAvailabilityStatus a WHERE a.ServerKey = g.ServerKey);
