SELECT WindowKey, RequestHash FROM dbo.TblMaintenanceKey WHERE IdempotencyKey = @key;
