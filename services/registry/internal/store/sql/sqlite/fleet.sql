SELECT 1 AS Kind, 0 AS ItemKey, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS FirstAt, NULL AS SecondAt, NULL AS FirstNumber, NULL AS SecondNumber, NULL AS AgentName, NULL AS HttpBaseUrl
UNION ALL
SELECT 2, e.Path, e.AliveAt, e.HealthySince, e.CanaryRoundTripMs, e.OldestMessageAgeMs, NULL, NULL
FROM TblIngestEvidence e
UNION ALL
SELECT 3, COALESCE(a.ServerKey, 0), a.LastBusHeartbeatAt, a.LastDirectHeartbeatAt, a.RegistrationState, a.HttpVerification, a.Name, a.HttpBaseUrl
FROM TblAgent a
UNION ALL
SELECT 4, f.ServerKey, NULL, NULL, NULL, NULL, f.AgentName, NULL
FROM TblFormerLink f
UNION ALL
SELECT 5, e.Path, e.AliveAt, NULL, e.BrokerAheadMs, e.BrokerAheadWithinMs, NULL, NULL
FROM TblIngestEvidence e WHERE e.BrokerAheadMs IS NOT NULL
UNION ALL
SELECT 6, 0, c.SeenAt, NULL, NULL, NULL, NULL, NULL
FROM TblRegistryClock c
UNION ALL
SELECT 7, t.ServerKey, NULL, NULL, a.RegistrationState, NULL, a.Name, NULL
FROM TblServerName o
JOIN TblServer t ON t.ServerKey = o.ServerKey AND o.Name = t.Name
JOIN TblAgent a ON a.NameKey = o.NameKey
LEFT JOIN TblServer l ON l.ServerKey = a.ServerKey
LEFT JOIN TblServerName own ON own.ServerKey = l.ServerKey AND own.Name = l.Name
WHERE a.ServerKey <> t.ServerKey AND COALESCE(own.NameKey, '') <> a.NameKey;
