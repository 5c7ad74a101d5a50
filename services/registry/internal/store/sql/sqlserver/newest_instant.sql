SELECT MAX(q.At) FROM (
SELECT MAX(LastBusHeartbeatAt) AS At FROM dbo.TblAgent
UNION ALL SELECT MAX(LastDirectHeartbeatAt) AS At FROM dbo.TblAgent
UNION ALL SELECT MAX(HttpVerifiedAt) AS At FROM dbo.TblAgent
UNION ALL SELECT MAX(RenewedAt) AS At FROM dbo.TblControlServer
UNION ALL SELECT MAX(UnlistedAt) AS At FROM dbo.TblControlServer
UNION ALL SELECT MAX(AliveAt) AS At FROM dbo.TblIngestEvidence
) q;
