SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name
FROM TblServer s LEFT JOIN TblAgent a ON a.ServerKey = s.ServerKey
WHERE s.ServerKey = @serverKey;
