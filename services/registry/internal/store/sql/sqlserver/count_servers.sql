SELECT COUNT(*)
FROM dbo.TblServer s LEFT JOIN dbo.TblAgent a ON a.ServerKey = s.ServerKey
LEFT JOIN dbo.TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = CAST(s.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2
WHERE (@type = N'' OR s.Type = @type)
  AND (@hasAgent < 0 OR @hasAgent = CASE WHEN a.AgentKey IS NULL THEN 0 ELSE 1 END)
  AND (@query = N'' OR CHARINDEX(@query, COALESCE(n.NameKey, LOWER(s.Name) COLLATE Latin1_General_BIN2)) > 0 OR CHARINDEX(@urlQuery, LOWER(COALESCE(s.Url, N''))) > 0);
