UPDATE dbo.TblMaintenanceSwitch SET IsOn = @isOn, Reason = @reason, EndAt = CAST(@endAt AS datetime2(3)), ChangedBy = @changedBy,
    ChangedAt = CAST(@changedAt AS datetime2(3)), Version = Version + 1
WHERE ServerKey = @serverKey AND Version = @version;
