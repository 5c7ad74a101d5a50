DELETE FROM TblMaintenanceWindow WHERE NOT EXISTS (SELECT 1 FROM TblServer s WHERE s.ServerKey = TblMaintenanceWindow.ServerKey);
