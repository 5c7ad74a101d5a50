DECLARE @asked TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @asked (NameKey) SELECT v.NameKey FROM OPENJSON(@names) WITH (NameKey nvarchar(512) '$') v;
SELECT a.AgentKey, a.NameKey, a.HeartbeatVersion, a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.BootId, a.Sequence, a.ObservedAt,
       a.ReportedName, a.Hostname, a.AgentVersion, a.ReportedHttpBaseUrl, a.Capabilities, a.ReportedAt, a.EarlierBoots, a.BootTurns,
       a.IdentityConflictAt, CASE WHEN a.IisBindings IS NULL THEN 0 ELSE 1 END, a.IisBindingCount, a.IisBindingsBootId, a.IisBindingsSequence, a.IisBindingsObservedAt,
       a.TokenHash, a.TokenClaimable, a.AffinityGroupKey, a.PrimaryControlServerKey, a.SecondaryControlServerKey, a.HostnameKey
FROM @asked n
JOIN dbo.TblAgent a ON a.NameKey = n.NameKey;
