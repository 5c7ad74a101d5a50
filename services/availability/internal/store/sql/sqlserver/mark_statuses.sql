DECLARE @marked TABLE (ServerKey int NOT NULL PRIMARY KEY, SecondWriter bit NOT NULL);
INSERT INTO @marked (ServerKey, SecondWriter) SELECT v.ServerKey, v.SecondWriter FROM OPENJSON(@batch) WITH (ServerKey int '$[0]', SecondWriter bit '$[1]') v;
UPDATE dbo.TblAvailabilityStatus SET Revision = @revision,
    SecondWriterAt = CASE WHEN v.SecondWriter = 1 THEN CAST(@now AS datetime2(3)) ELSE dbo.TblAvailabilityStatus.SecondWriterAt END
FROM (SELECT ServerKey, SecondWriter FROM @marked) v
WHERE v.ServerKey = dbo.TblAvailabilityStatus.ServerKey;
