SELECT w.WindowKey, w.ServerKey, w.StartAt, w.EndAt, w.StartLocal, w.Zone, w.RRule, w.DurationMs, w.Ends, w.Reason, w.CreatedBy, w.CreatedAt, w.LastEndAt
FROM TblMaintenanceWindow w JOIN TblServer s ON s.ServerKey = w.ServerKey
WHERE s.Type = 'BenefitManager' COLLATE NOCASE AND (w.LastEndAt IS NULL OR w.LastEndAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ORDER BY w.WindowKey;
