DELETE FROM dbo.TblMaintenanceSwitch WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServer s WHERE s.ServerKey = dbo.TblMaintenanceSwitch.ServerKey);
