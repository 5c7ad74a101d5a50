SELECT TOP (@limit) s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt,
       m.IsOn, m.Reason, m.EndAt, m.ChangedBy, m.ChangedAt, m.Version
FROM dbo.TblServer s
LEFT JOIN dbo.TblAvailabilityStatus a ON a.ServerKey = s.ServerKey
LEFT JOIN dbo.TblMaintenanceSwitch m ON m.ServerKey = s.ServerKey
LEFT JOIN dbo.TblAvailabilityServerName n ON n.ServerKey = s.ServerKey AND n.Name = CAST(s.Name AS nvarchar(max)) COLLATE Latin1_General_BIN2
WHERE s.ServerKey > @afterKey AND s.Type = N'BenefitManager'
  AND (@verdicts = N'' OR CHARINDEX(CAST(a.Verdict AS nvarchar(10)), @verdicts) > 0)
  AND (@held < 0 OR @held = CASE WHEN COALESCE(a.Held, N'') <> N'' THEN 1 ELSE 0 END)
  AND (@maintenance < 0 OR @maintenance = COALESCE(a.Maintenance, 0))
  AND (@disagrees < 0 OR @disagrees = CASE WHEN COALESCE(s.Online, 0) <> COALESCE(a.OnlineDecided, s.Online, 0) THEN 1 ELSE 0 END)
  AND (@codes = N'' OR CHARINDEX(N',' + CAST(COALESCE(a.Verdict, 3) * 8 + CASE WHEN COALESCE(a.Held, N'') <> N'' THEN 4 ELSE 0 END
        + CAST(COALESCE(a.Maintenance, 0) AS int) * 2 + CAST(COALESCE(s.Online, 0) AS int) AS nvarchar(10)) + N',', @codes) > 0)
  AND (@query = N'' OR CHARINDEX(@query, COALESCE(n.NameKey, LOWER(s.Name) COLLATE Latin1_General_BIN2)) > 0)
ORDER BY s.ServerKey;
