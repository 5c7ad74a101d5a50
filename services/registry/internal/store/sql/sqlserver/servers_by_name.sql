SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name
FROM dbo.TblServer s LEFT JOIN dbo.TblAgent a ON a.ServerKey = s.ServerKey
WHERE s.Name = @name OR s.Name = @folded OR s.ServerKey IN (SELECT n.ServerKey FROM dbo.TblServerName n WHERE n.NameKey = @nameKey);
