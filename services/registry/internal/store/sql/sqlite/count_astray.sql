SELECT COUNT(*), COALESCE(SUM(q.Relinkable), 0) FROM (
SELECT CASE WHEN EXISTS (SELECT 1 FROM TblServerName o JOIN TblServer t ON t.ServerKey = o.ServerKey AND t.Name = o.Name COLLATE BINARY WHERE o.NameKey = a.NameKey)
            THEN 1 ELSE 0 END AS Relinkable
FROM TblAgent a
LEFT JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE a.ServerKey IS NOT NULL AND (s.ServerKey IS NULL OR n.NameKey <> a.NameKey)
) q;
