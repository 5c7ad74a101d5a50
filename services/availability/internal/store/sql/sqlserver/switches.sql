SELECT ServerKey, IsOn, Reason, EndAt, ChangedBy, ChangedAt, Version FROM dbo.TblMaintenanceSwitch;
