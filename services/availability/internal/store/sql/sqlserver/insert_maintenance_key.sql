INSERT INTO dbo.TblMaintenanceKey (IdempotencyKey, WindowKey, RequestHash, CreatedAt)
VALUES (@key, @windowKey, @hash, CAST(@createdAt AS datetime2(3)));
