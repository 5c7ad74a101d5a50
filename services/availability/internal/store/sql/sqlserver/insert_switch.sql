INSERT INTO dbo.TblMaintenanceSwitch (ServerKey, IsOn, Reason, EndAt, ChangedBy, ChangedAt, Version)
VALUES (@serverKey, @isOn, @reason, CAST(@endAt AS datetime2(3)), @changedBy, CAST(@changedAt AS datetime2(3)), 1);
