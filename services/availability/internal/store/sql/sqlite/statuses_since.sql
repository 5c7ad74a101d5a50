SELECT s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt,
       m.IsOn, m.Reason, m.EndAt, m.ChangedBy, m.ChangedAt, m.Version
FROM TblAvailabilityStatus a
CROSS JOIN TblServer s ON s.ServerKey = a.ServerKey
LEFT JOIN TblMaintenanceSwitch m ON m.ServerKey = s.ServerKey
WHERE a.Revision > @revision AND s.Type = 'BenefitManager' COLLATE NOCASE
ORDER BY s.ServerKey;
