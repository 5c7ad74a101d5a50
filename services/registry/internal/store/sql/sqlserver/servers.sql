SELECT TOP (@limit) q.* FROM (
SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name AS AgentName,
       CASE @sort WHEN 'url' THEN LOWER(COALESCE(s.Url, N'')) WHEN 'type' THEN LOWER(COALESCE(s.Type, N''))
                  WHEN 'key' THEN RIGHT(N'00000000000000000000' + CAST(s.ServerKey AS nvarchar(20)), 20) ELSE COALESCE(n.NameKey, LOWER(s.Name) COLLATE Latin1_General_BIN2) END AS SortKey
FROM dbo.TblServer s LEFT JOIN dbo.TblAgent a ON a.ServerKey = s.ServerKey
LEFT JOIN dbo.TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = CAST(s.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2
WHERE (@type = N'' OR s.Type = @type)
  AND (@hasAgent < 0 OR @hasAgent = CASE WHEN a.AgentKey IS NULL THEN 0 ELSE 1 END)
  AND (@query = N'' OR CHARINDEX(@query, COALESCE(n.NameKey, LOWER(s.Name) COLLATE Latin1_General_BIN2)) > 0 OR CHARINDEX(@urlQuery, LOWER(COALESCE(s.Url, N''))) > 0)
) q
WHERE @afterKey = 0
   OR (@descending = 0 AND (q.SortKey > @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
   OR (@descending = 1 AND (q.SortKey < @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
ORDER BY CASE WHEN @descending = 0 THEN q.SortKey END, CASE WHEN @descending = 1 THEN q.SortKey END DESC, q.ServerKey;
