DECLARE @names TABLE (ServerKey bigint NOT NULL PRIMARY KEY, Name nvarchar(max) NOT NULL, NameKey nvarchar(512) NOT NULL);
INSERT INTO @names (ServerKey, Name, NameKey)
SELECT v.ServerKey, v.Name, v.NameKey
FROM OPENJSON(@batch) WITH (ServerKey bigint '$[0]', Name nvarchar(max) '$[1]', NameKey nvarchar(512) '$[2]') v;
UPDATE dbo.TblServerName SET Name = v.Name, NameKey = v.NameKey
FROM @names v
WHERE v.ServerKey = dbo.TblServerName.ServerKey;
INSERT INTO dbo.TblServerName (ServerKey, Name, NameKey)
SELECT v.ServerKey, v.Name, v.NameKey
FROM @names v
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServerName n WHERE n.ServerKey = v.ServerKey);
