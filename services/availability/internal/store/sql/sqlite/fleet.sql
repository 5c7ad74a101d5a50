SELECT s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt
FROM TblServer s LEFT JOIN TblAvailabilityStatus a ON a.ServerKey = s.ServerKey
WHERE s.Type = 'BenefitManager' COLLATE NOCASE
ORDER BY s.ServerKey;
