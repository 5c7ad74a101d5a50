SELECT COUNT(*)
FROM TblAgent a
LEFT JOIN TblControlServer p ON p.ControlServerKey = a.PrimaryControlServerKey
WHERE (@states = '' OR instr(@states, CAST(a.RegistrationState AS TEXT)) > 0)
  AND (@transport < 0 OR @transport = CASE WHEN a.OnServiceBus = 1 THEN 1 WHEN a.HttpBaseUrl IS NOT NULL THEN 2 ELSE 0 END)
  AND (@linked < 0 OR @linked = (a.ServerKey IS NOT NULL))
  AND (@query = '' OR instr(a.NameKey, @query) > 0 OR instr(COALESCE(a.HostnameKey, lower(a.Hostname)), @query) > 0)
  AND (@freshness = 0
       OR (@freshness = 1 AND MAX(COALESCE(a.LastBusHeartbeatAt, ''), COALESCE(a.LastDirectHeartbeatAt, '')) > @freshAfter)
       OR (@freshness = 2 AND MAX(COALESCE(a.LastBusHeartbeatAt, ''), COALESCE(a.LastDirectHeartbeatAt, '')) <= @freshAfter
           AND (a.LastBusHeartbeatAt IS NOT NULL OR a.LastDirectHeartbeatAt IS NOT NULL))
       OR (@freshness = 3 AND a.LastBusHeartbeatAt IS NULL AND a.LastDirectHeartbeatAt IS NULL))
  AND (@unseenSince IS NULL OR COALESCE(MAX(a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt), a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.CreatedAt) <= @unseenSince)
  AND (@version = '' OR a.AgentVersion = @version)
  AND (@primary = '' OR p.NameKey = @primary)
  AND (@astray < 0 OR @astray = CASE
       WHEN a.ServerKey IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM TblServer s LEFT JOIN TblServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
                            WHERE s.ServerKey = a.ServerKey AND (n.NameKey IS NULL OR n.NameKey = a.NameKey))
            AND (a.RegistrationState <> 3
                 OR EXISTS (SELECT 1 FROM TblServerName o JOIN TblServer t ON t.ServerKey = o.ServerKey AND o.Name = t.Name COLLATE BINARY WHERE o.NameKey = a.NameKey))
       THEN 1 ELSE 0 END);
