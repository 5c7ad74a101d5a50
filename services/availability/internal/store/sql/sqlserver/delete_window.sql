DELETE FROM dbo.TblMaintenanceWindow WHERE WindowKey = @windowKey AND ServerKey = @serverKey;
