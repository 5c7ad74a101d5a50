INSERT INTO TblMaintenanceSwitch (ServerKey, IsOn, Reason, EndAt, ChangedBy, ChangedAt, Version)
VALUES (@serverKey, @isOn, @reason, @endAt, @changedBy, @changedAt, 1);
