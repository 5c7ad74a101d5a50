SELECT s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt
FROM dbo.TblServer s LEFT JOIN dbo.TblAvailabilityStatus a ON a.ServerKey = s.ServerKey
WHERE s.Type = N'BenefitManager'
ORDER BY s.ServerKey;
