SELECT WindowKey, ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt
FROM TblMaintenanceWindow
WHERE WindowKey = @windowKey;
