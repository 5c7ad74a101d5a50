SELECT WindowKey, ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt
FROM dbo.TblMaintenanceWindow
WHERE ServerKey = @serverKey AND (LastEndAt IS NULL OR LastEndAt > CAST(SYSUTCDATETIME() AS datetime2(3)))
ORDER BY WindowKey;
