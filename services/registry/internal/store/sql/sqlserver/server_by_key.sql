SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name
FROM dbo.TblServer s LEFT JOIN dbo.TblAgent a ON a.ServerKey = s.ServerKey
WHERE s.ServerKey = @serverKey;
