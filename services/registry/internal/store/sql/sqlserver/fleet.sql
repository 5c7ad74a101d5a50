SELECT 1 AS Kind, CAST(0 AS bigint) AS ItemKey, CAST(SYSUTCDATETIME() AS datetime2(3)) AS FirstAt, CAST(NULL AS datetime2(3)) AS SecondAt,
       CAST(NULL AS bigint) AS FirstNumber, CAST(NULL AS bigint) AS SecondNumber, CAST(NULL AS nvarchar(128)) AS AgentName, CAST(NULL AS nvarchar(2048)) AS HttpBaseUrl
UNION ALL
SELECT 2, CAST(e.Path AS bigint), e.AliveAt, e.HealthySince, e.CanaryRoundTripMs, e.OldestMessageAgeMs, CAST(NULL AS nvarchar(128)), CAST(NULL AS nvarchar(2048))
FROM dbo.TblIngestEvidence e
UNION ALL
SELECT 3, CAST(COALESCE(a.ServerKey, 0) AS bigint), a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, CAST(a.RegistrationState AS bigint), CAST(a.HttpVerification AS bigint), a.Name, a.HttpBaseUrl
FROM dbo.TblAgent a
UNION ALL
SELECT 4, CAST(f.ServerKey AS bigint), CAST(NULL AS datetime2(3)), CAST(NULL AS datetime2(3)), CAST(NULL AS bigint), CAST(NULL AS bigint), f.AgentName, CAST(NULL AS nvarchar(2048))
FROM dbo.TblFormerLink f
UNION ALL
SELECT 5, CAST(e.Path AS bigint), e.AliveAt, CAST(NULL AS datetime2(3)), e.BrokerAheadMs, e.BrokerAheadWithinMs, CAST(NULL AS nvarchar(128)), CAST(NULL AS nvarchar(2048))
FROM dbo.TblIngestEvidence e WHERE e.BrokerAheadMs IS NOT NULL
UNION ALL
SELECT 6, CAST(0 AS bigint), c.SeenAt, CAST(NULL AS datetime2(3)), CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS nvarchar(128)), CAST(NULL AS nvarchar(2048))
FROM dbo.TblRegistryClock c
UNION ALL
SELECT 7, CAST(t.ServerKey AS bigint), CAST(NULL AS datetime2(3)), CAST(NULL AS datetime2(3)), CAST(a.RegistrationState AS bigint), CAST(NULL AS bigint), a.Name, CAST(NULL AS nvarchar(2048))
FROM dbo.TblServerName o
JOIN dbo.TblServer t ON t.ServerKey = o.ServerKey AND CAST(t.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2 = o.Name
JOIN dbo.TblAgent a ON a.NameKey = o.NameKey
LEFT JOIN dbo.TblServer l ON l.ServerKey = a.ServerKey
LEFT JOIN dbo.TblServerName own ON own.ServerKey = l.ServerKey AND CAST(l.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2 = own.Name
WHERE a.ServerKey <> t.ServerKey AND COALESCE(own.NameKey, N'') <> a.NameKey;
