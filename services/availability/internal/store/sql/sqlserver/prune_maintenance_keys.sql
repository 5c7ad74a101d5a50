DELETE FROM dbo.TblMaintenanceKey WHERE CreatedAt < CAST(@before AS datetime2(3));
