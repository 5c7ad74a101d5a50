UPDATE TblMaintenanceSwitch SET IsOn = @isOn, Reason = @reason, EndAt = @endAt, ChangedBy = @changedBy, ChangedAt = @changedAt, Version = Version + 1
WHERE ServerKey = @serverKey AND Version = @version;
