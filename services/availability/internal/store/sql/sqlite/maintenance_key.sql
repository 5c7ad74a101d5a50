SELECT WindowKey, RequestHash FROM TblMaintenanceKey WHERE IdempotencyKey = @key;
