SELECT a.AgentKey, a.Name, a.NameKey
FROM TblAgent a
LEFT JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE a.ServerKey IS NOT NULL AND (s.ServerKey IS NULL OR n.NameKey <> a.NameKey)
  AND (a.RegistrationState <> 3 OR EXISTS (SELECT 1 FROM TblServerName o JOIN TblServer t ON t.ServerKey = o.ServerKey AND o.Name = t.Name COLLATE BINARY WHERE o.NameKey = a.NameKey))
  AND a.AgentKey > @afterKey
ORDER BY a.AgentKey
LIMIT @limit;
