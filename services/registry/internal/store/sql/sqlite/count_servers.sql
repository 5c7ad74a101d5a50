SELECT COUNT(*)
FROM TblServer s LEFT JOIN TblAgent a ON a.ServerKey = s.ServerKey
LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE (@type = '' OR s.Type = @type COLLATE NOCASE)
  AND (@hasAgent < 0 OR @hasAgent = (a.AgentKey IS NOT NULL))
  AND (@query = '' OR instr(COALESCE(n.NameKey, lower(s.Name)), @query) > 0 OR instr(lower(COALESCE(s.Url, '')), @urlQuery) > 0);
