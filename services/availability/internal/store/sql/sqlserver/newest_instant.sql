SELECT MAX(q.At) FROM (
SELECT MAX(SecondWriterAt) AS At FROM dbo.TblAvailabilityState
UNION ALL SELECT MAX(FrozenSince) FROM dbo.TblAvailabilityPath
UNION ALL SELECT MAX(BrakeJudgedAt) FROM dbo.TblAvailabilityPath
UNION ALL SELECT MAX(Since) FROM dbo.TblAvailabilityStatus
) q;
