DELETE FROM TblMaintenanceKey WHERE CreatedAt < @before;
