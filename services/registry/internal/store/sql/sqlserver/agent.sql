SELECT a.AgentKey, a.Name, a.NameKey, a.ReportedName, a.Hostname, a.RegistrationState, a.DecidedBy, a.DecidedAt, a.DecisionVersion, g.Name,
       a.OnServiceBus, a.HttpBaseUrl, a.ReportedHttpBaseUrl, a.HttpVerifiedAt, a.HttpVerification, a.HttpVerificationDetail,
       a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ReportedAt, a.AgentVersion, a.Capabilities,
       a.IdentityConflictAt, a.CreatedAt, a.IisBindingCount, CASE WHEN a.IisBindings IS NULL THEN 0 ELSE 1 END,
       CASE WHEN a.TokenHash IS NULL THEN 0 ELSE 1 END, a.TokenClaimable,
       a.ServerKey, s.ServerKey, s.Name, s.Url, s.Active, s.Online, SYSUTCDATETIME(),
       r.AnsweredAt, r.Unanswered, r.UnansweredSince,
       e.AliveAt, e.HealthySince, e.CanaryRoundTripMs, e.OldestMessageAgeMs, e.BrokerAheadMs, e.BrokerAheadWithinMs
FROM dbo.TblAgent a
LEFT JOIN dbo.TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN dbo.TblAffinityGroup g ON g.GroupKey = a.AffinityGroupKey
LEFT JOIN dbo.TblAgentReceiver r ON r.AgentKey = a.AgentKey
LEFT JOIN dbo.TblIngestEvidence e ON e.Path = @path
WHERE a.NameKey = @nameKey;
