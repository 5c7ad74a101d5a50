SELECT s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt,
       m.IsOn, m.Reason, m.EndAt, m.ChangedBy, m.ChangedAt, m.Version, s.Type
FROM dbo.TblServer s
LEFT JOIN dbo.TblAvailabilityStatus a ON a.ServerKey = s.ServerKey
LEFT JOIN dbo.TblMaintenanceSwitch m ON m.ServerKey = s.ServerKey
WHERE s.Name = @name OR s.Name = @folded OR s.ServerKey IN (SELECT n.ServerKey FROM dbo.TblAvailabilityServerName n WHERE n.NameKey = @nameKey)
ORDER BY s.ServerKey;
