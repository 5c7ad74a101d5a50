SELECT q.* FROM (
SELECT a.AgentKey, a.Name, a.NameKey, a.ReportedName, a.Hostname, a.RegistrationState, a.DecidedBy, a.DecidedAt, a.DecisionVersion, g.Name,
       a.OnServiceBus, a.HttpBaseUrl, a.ReportedHttpBaseUrl, a.HttpVerifiedAt, a.HttpVerification, a.HttpVerificationDetail,
       a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ReportedAt, a.AgentVersion, a.Capabilities,
       a.IdentityConflictAt, a.CreatedAt, a.IisBindingCount, a.IisBindings IS NOT NULL,
       a.TokenHash IS NOT NULL, a.TokenClaimable,
       a.ServerKey, s.ServerKey, s.Name, s.Url, s.Active, s.Online, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
       r.AnsweredAt, r.Unanswered, r.UnansweredSince,
       CASE @sort
           WHEN 'state' THEN a.RegistrationState || ' ' || a.NameKey
           WHEN 'last_heartbeat' THEN MAX(COALESCE(a.LastBusHeartbeatAt, ''), COALESCE(a.LastDirectHeartbeatAt, ''))
           WHEN 'created' THEN a.CreatedAt
           WHEN 'hostname' THEN lower(a.Hostname)
           WHEN 'version' THEN a.AgentVersion
           WHEN 'control_server' THEN COALESCE(p.NameKey, '')
           ELSE a.NameKey END AS SortKey
FROM TblAgent a
LEFT JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblAffinityGroup g ON g.GroupKey = a.AffinityGroupKey
LEFT JOIN TblAgentReceiver r ON r.AgentKey = a.AgentKey
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
       THEN 1 ELSE 0 END)
) q
WHERE @afterKey = 0
   OR (@descending = 0 AND (q.SortKey > @afterSort OR (q.SortKey = @afterSort AND q.AgentKey > @afterKey)))
   OR (@descending = 1 AND (q.SortKey < @afterSort OR (q.SortKey = @afterSort AND q.AgentKey > @afterKey)))
ORDER BY CASE WHEN @descending = 0 THEN q.SortKey END, CASE WHEN @descending = 1 THEN q.SortKey END DESC, q.AgentKey
LIMIT @limit;
