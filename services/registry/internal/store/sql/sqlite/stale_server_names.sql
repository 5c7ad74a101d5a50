SELECT s.ServerKey, s.Name
FROM TblServer s LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey
WHERE n.ServerKey IS NULL OR n.Name <> COALESCE(s.Name, '') COLLATE BINARY
ORDER BY s.ServerKey
LIMIT @limit;
