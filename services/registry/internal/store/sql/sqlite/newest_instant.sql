SELECT MAX(q.At) FROM (
SELECT MAX(LastBusHeartbeatAt) AS At FROM TblAgent
UNION ALL SELECT MAX(LastDirectHeartbeatAt) AS At FROM TblAgent
UNION ALL SELECT MAX(HttpVerifiedAt) AS At FROM TblAgent
UNION ALL SELECT MAX(RenewedAt) AS At FROM TblControlServer
UNION ALL SELECT MAX(UnlistedAt) AS At FROM TblControlServer
UNION ALL SELECT MAX(AliveAt) AS At FROM TblIngestEvidence
) q;
