SELECT COUNT(*), COALESCE(SUM(q.Relinkable), 0) FROM (
SELECT CASE WHEN (SELECT COUNT(*) FROM TblServerName o JOIN TblServer t ON t.ServerKey = o.ServerKey AND o.Name = t.Name COLLATE BINARY WHERE o.NameKey = a.NameKey) = 1
            THEN 1 ELSE 0 END AS Relinkable
FROM TblAgent a
LEFT JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE a.ServerKey IS NOT NULL AND (s.ServerKey IS NULL OR n.NameKey <> a.NameKey)
  AND (a.RegistrationState <> 3 OR EXISTS (SELECT 1 FROM TblServerName o JOIN TblServer t ON t.ServerKey = o.ServerKey AND o.Name = t.Name COLLATE BINARY WHERE o.NameKey = a.NameKey))
) q;
