DELETE FROM TblMaintenanceWindow WHERE WindowKey = @windowKey AND ServerKey = @serverKey;
