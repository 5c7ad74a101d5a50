SELECT TOP (@limit) a.AgentKey, a.Name, a.NameKey
FROM dbo.TblAgent a
LEFT JOIN dbo.TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN dbo.TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = CAST(s.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2
WHERE a.ServerKey IS NOT NULL AND (s.ServerKey IS NULL OR n.NameKey <> a.NameKey)
  AND (a.RegistrationState <> 3 OR EXISTS (SELECT 1 FROM dbo.TblServerName o JOIN dbo.TblServer t ON t.ServerKey = o.ServerKey AND CAST(t.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2 = o.Name WHERE o.NameKey = a.NameKey))
  AND a.AgentKey > @afterKey
ORDER BY a.AgentKey;
