SELECT COUNT(*) FROM dbo.TblMaintenanceWindow
WHERE ServerKey = @serverKey AND (LastEndAt IS NULL OR LastEndAt > CAST(SYSUTCDATETIME() AS datetime2(3)));
