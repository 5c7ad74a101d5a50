SELECT w.WindowKey, w.ServerKey, w.StartAt, w.EndAt, w.StartLocal, w.Zone, w.RRule, w.DurationMs, w.Ends, w.Reason, w.CreatedBy, w.CreatedAt, w.LastEndAt
FROM dbo.TblMaintenanceWindow w JOIN dbo.TblServer s ON s.ServerKey = w.ServerKey
WHERE s.Type = N'BenefitManager' AND (w.LastEndAt IS NULL OR w.LastEndAt > CAST(SYSUTCDATETIME() AS datetime2(3)))
ORDER BY w.WindowKey;
