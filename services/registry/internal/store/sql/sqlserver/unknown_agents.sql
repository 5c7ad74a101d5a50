DECLARE @asked TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @asked (NameKey) SELECT v.NameKey FROM OPENJSON(@names) WITH (NameKey nvarchar(512) '$') v;
SELECT n.NameKey FROM @asked n
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAgent a WHERE a.NameKey = n.NameKey);
