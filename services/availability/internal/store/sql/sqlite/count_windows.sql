SELECT COUNT(*) FROM TblMaintenanceWindow
WHERE ServerKey = @serverKey AND (LastEndAt IS NULL OR LastEndAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
