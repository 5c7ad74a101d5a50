SELECT COUNT(*)
FROM dbo.TblAgent a
LEFT JOIN dbo.TblControlServer p ON p.ControlServerKey = a.PrimaryControlServerKey
CROSS APPLY (SELECT CASE WHEN a.LastDirectHeartbeatAt IS NULL OR a.LastBusHeartbeatAt > a.LastDirectHeartbeatAt
                         THEN COALESCE(a.LastBusHeartbeatAt, CAST('0001-01-01' AS datetime2(3)))
                         ELSE a.LastDirectHeartbeatAt END AS LastHeartbeatAt) h
WHERE (@states = N'' OR CHARINDEX(CAST(a.RegistrationState AS nvarchar(10)), @states) > 0)
  AND (@transport < 0 OR @transport = CASE WHEN a.OnServiceBus = 1 THEN 1 WHEN a.HttpBaseUrl IS NOT NULL THEN 2 ELSE 0 END)
  AND (@linked < 0 OR @linked = CASE WHEN a.ServerKey IS NULL THEN 0 ELSE 1 END)
  AND (@query = N'' OR CHARINDEX(@query, a.NameKey) > 0 OR CHARINDEX(@query, COALESCE(a.HostnameKey, LOWER(a.Hostname) COLLATE Latin1_General_BIN2)) > 0)
  AND (@freshness = 0
       OR (@freshness = 1 AND h.LastHeartbeatAt > CAST(@freshAfter AS datetime2(3)))
       OR (@freshness = 2 AND h.LastHeartbeatAt <= CAST(@freshAfter AS datetime2(3)) AND (a.LastBusHeartbeatAt IS NOT NULL OR a.LastDirectHeartbeatAt IS NOT NULL))
       OR (@freshness = 3 AND a.LastBusHeartbeatAt IS NULL AND a.LastDirectHeartbeatAt IS NULL))
  AND (@unseenSince IS NULL
       OR CASE WHEN a.LastBusHeartbeatAt IS NULL AND a.LastDirectHeartbeatAt IS NULL THEN a.CreatedAt ELSE h.LastHeartbeatAt END <= CAST(@unseenSince AS datetime2(3)))
  AND (@version = N'' OR a.AgentVersion = @version)
  AND (@primary = N'' OR p.NameKey = @primary)
  AND (@astray < 0 OR @astray = CASE
       WHEN a.ServerKey IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM dbo.TblServer s LEFT JOIN dbo.TblServerName n ON n.ServerKey = s.ServerKey AND CAST(s.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2 = n.Name
                            WHERE s.ServerKey = a.ServerKey AND (n.NameKey IS NULL OR n.NameKey = a.NameKey))
            AND (a.RegistrationState <> 3
                 OR EXISTS (SELECT 1 FROM dbo.TblServerName o JOIN dbo.TblServer t ON t.ServerKey = o.ServerKey AND CAST(t.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2 = o.Name WHERE o.NameKey = a.NameKey))
       THEN 1 ELSE 0 END);
