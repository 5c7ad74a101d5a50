DECLARE @names TABLE (ServerKey bigint NOT NULL PRIMARY KEY, Name nvarchar(max) NOT NULL, Folded nvarchar(max) NOT NULL, NameHash nvarchar(64) NOT NULL);
INSERT INTO @names (ServerKey, Name, Folded, NameHash)
SELECT v.ServerKey, v.Name, v.Folded, v.NameHash
FROM OPENJSON(@batch) WITH (ServerKey bigint '$[0]', Name nvarchar(max) '$[1]', Folded nvarchar(max) '$[2]', NameHash nvarchar(64) '$[3]') v;
UPDATE dbo.TblAvailabilityServerName SET Name = v.Name, Folded = v.Folded, NameHash = v.NameHash
FROM @names v
WHERE v.ServerKey = dbo.TblAvailabilityServerName.ServerKey;
INSERT INTO dbo.TblAvailabilityServerName (ServerKey, Name, Folded, NameHash)
SELECT v.ServerKey, v.Name, v.Folded, v.NameHash
FROM @names v
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAvailabilityServerName n WHERE n.ServerKey = v.ServerKey);
