DELETE FROM dbo.TblMaintenanceWindow WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServer s WHERE s.ServerKey = dbo.TblMaintenanceWindow.ServerKey);
