SELECT WindowKey, ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt
FROM TblMaintenanceWindow
WHERE ServerKey = @serverKey AND (LastEndAt IS NULL OR LastEndAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ORDER BY WindowKey;
