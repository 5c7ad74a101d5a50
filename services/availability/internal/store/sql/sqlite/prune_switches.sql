DELETE FROM TblMaintenanceSwitch WHERE NOT EXISTS (SELECT 1 FROM TblServer s WHERE s.ServerKey = TblMaintenanceSwitch.ServerKey);
