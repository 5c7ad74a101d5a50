DECLARE @asked TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @asked (NameKey) SELECT v.NameKey FROM OPENJSON(@names) WITH (NameKey nvarchar(512) '$') v;
UPDATE dbo.TblAgent SET AffinityGroupKey = NULL
FROM @asked n
WHERE n.NameKey = dbo.TblAgent.NameKey AND dbo.TblAgent.AffinityGroupKey = @group;
