SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name
FROM TblServer s LEFT JOIN TblAgent a ON a.ServerKey = s.ServerKey
WHERE s.Name = @name OR s.Name = @folded OR s.ServerKey IN (SELECT n.ServerKey FROM TblServerName n WHERE n.NameKey = @nameKey);
