SELECT a.AgentKey, a.NameKey, a.HeartbeatVersion, a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ObservedAt,
       a.ReportedName, a.Hostname, a.AgentVersion, a.ReportedHttpBaseUrl, a.Capabilities, a.ReportedAt, a.EarlierBoots, a.BootTurns,
       a.IdentityConflictAt, a.IisBindings IS NOT NULL, a.IisBindingCount, a.IisBindingsBootId, a.IisBindingsSequence, a.IisBindingsObservedAt,
       a.TokenHash, a.TokenClaimable, a.AffinityGroupKey, a.PrimaryControlServerKey, a.SecondaryControlServerKey, a.HostnameKey
FROM json_each(@names) n
CROSS JOIN TblAgent a ON a.NameKey = n.value;
