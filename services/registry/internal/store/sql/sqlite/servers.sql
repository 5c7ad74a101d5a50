SELECT q.* FROM (
SELECT s.ServerKey, s.Name, s.Url, s.Type, s.Active, s.Online, a.Name AS AgentName,
       CASE @sort WHEN 'url' THEN lower(COALESCE(s.Url, '')) WHEN 'type' THEN lower(COALESCE(s.Type, ''))
                  WHEN 'key' THEN printf('%020d', s.ServerKey) ELSE COALESCE(n.NameKey, lower(s.Name)) END AS SortKey
FROM TblServer s LEFT JOIN TblAgent a ON a.ServerKey = s.ServerKey
LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE (@type = '' OR s.Type = @type COLLATE NOCASE)
  AND (@hasAgent < 0 OR @hasAgent = (a.AgentKey IS NOT NULL))
  AND (@query = '' OR instr(COALESCE(n.NameKey, lower(s.Name)), @query) > 0 OR instr(lower(COALESCE(s.Url, '')), @urlQuery) > 0)
) q
WHERE @afterKey = 0
   OR (@descending = 0 AND (q.SortKey > @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
   OR (@descending = 1 AND (q.SortKey < @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
ORDER BY CASE WHEN @descending = 0 THEN q.SortKey END, CASE WHEN @descending = 1 THEN q.SortKey END DESC, q.ServerKey
LIMIT @limit;
