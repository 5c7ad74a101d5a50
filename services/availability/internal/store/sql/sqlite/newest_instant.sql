SELECT MAX(q.At) FROM (
SELECT MAX(SecondWriterAt) AS At FROM TblAvailabilityState
UNION ALL SELECT MAX(FrozenSince) FROM TblAvailabilityPath
UNION ALL SELECT MAX(BrakeJudgedAt) FROM TblAvailabilityPath
UNION ALL SELECT MAX(Since) FROM TblAvailabilityStatus
) q;
