SELECT a.AgentKey, a.Name, a.NameKey, a.ReportedName, a.Hostname, a.RegistrationState, a.DecidedBy, a.DecidedAt, a.DecisionVersion, g.Name,
       a.OnServiceBus, a.HttpBaseUrl, a.ReportedHttpBaseUrl, a.HttpVerifiedAt, a.HttpVerification, a.HttpVerificationDetail,
       a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ReportedAt, a.AgentVersion, a.Capabilities,
       a.IdentityConflictAt, a.CreatedAt, a.IisBindingCount, a.IisBindings IS NOT NULL,
       a.TokenHash IS NOT NULL, a.TokenClaimable,
       a.ServerKey, s.ServerKey, s.Name, s.Url, s.Active, s.Online, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
       r.AnsweredAt, r.Unanswered, r.UnansweredSince,
       e.AliveAt, e.HealthySince, e.CanaryRoundTripMs, e.OldestMessageAgeMs, e.BrokerAheadMs, e.BrokerAheadWithinMs
FROM TblAgent a
LEFT JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblAffinityGroup g ON g.GroupKey = a.AffinityGroupKey
LEFT JOIN TblAgentReceiver r ON r.AgentKey = a.AgentKey
LEFT JOIN TblIngestEvidence e ON e.Path = @path
WHERE a.NameKey = @nameKey;
