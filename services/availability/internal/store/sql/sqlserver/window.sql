SELECT WindowKey, ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt
FROM dbo.TblMaintenanceWindow
WHERE WindowKey = @windowKey;
