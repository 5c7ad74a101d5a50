SELECT TOP (@limit) q.* FROM (
SELECT a.AgentKey, a.Name, a.NameKey, a.ReportedName, a.Hostname, a.RegistrationState, a.DecidedBy, a.DecidedAt, a.DecisionVersion, g.Name AS AffinityGroup,
       a.OnServiceBus, a.HttpBaseUrl, a.ReportedHttpBaseUrl, a.HttpVerifiedAt, a.HttpVerification, a.HttpVerificationDetail,
       a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ReportedAt, a.AgentVersion, a.Capabilities,
       a.IdentityConflictAt, a.CreatedAt, a.IisBindingCount, CASE WHEN a.IisBindings IS NULL THEN 0 ELSE 1 END AS IisBindingsReported,
       CASE WHEN a.TokenHash IS NULL THEN 0 ELSE 1 END AS HasToken, a.TokenClaimable,
       a.ServerKey AS LinkedServerKey, s.ServerKey, s.Name AS ServerName, s.Url, s.Active, s.Online, SYSUTCDATETIME() AS ReadAt,
       r.AnsweredAt, r.Unanswered, r.UnansweredSince,
       CASE @sort
           WHEN 'state' THEN CAST(a.RegistrationState AS nvarchar(10)) + N' ' + a.NameKey
           WHEN 'last_heartbeat' THEN CONVERT(nvarchar(30), h.LastHeartbeatAt, 126)
           WHEN 'created' THEN CONVERT(nvarchar(30), a.CreatedAt, 126)
           WHEN 'hostname' THEN LOWER(a.Hostname)
           WHEN 'version' THEN a.AgentVersion
           WHEN 'control_server' THEN COALESCE(p.NameKey, N'')
           ELSE a.NameKey END AS SortKey
FROM dbo.TblAgent a
LEFT JOIN dbo.TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN dbo.TblAffinityGroup g ON g.GroupKey = a.AffinityGroupKey
LEFT JOIN dbo.TblAgentReceiver r ON r.AgentKey = a.AgentKey
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
       THEN 1 ELSE 0 END)
) q
WHERE @afterKey = 0
   OR (@descending = 0 AND (q.SortKey > @afterSort OR (q.SortKey = @afterSort AND q.AgentKey > @afterKey)))
   OR (@descending = 1 AND (q.SortKey < @afterSort OR (q.SortKey = @afterSort AND q.AgentKey > @afterKey)))
ORDER BY CASE WHEN @descending = 0 THEN q.SortKey END, CASE WHEN @descending = 1 THEN q.SortKey END DESC, q.AgentKey;
