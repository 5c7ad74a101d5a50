DECLARE @asked TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @asked (NameKey) SELECT v.NameKey FROM OPENJSON(@names) WITH (NameKey nvarchar(512) '$') v;
SELECT COUNT(*)
FROM @asked n
JOIN dbo.TblAgent a ON a.NameKey = n.NameKey
WHERE a.AffinityGroupKey = @group;
