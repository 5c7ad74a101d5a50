INSERT INTO TblMaintenanceKey (IdempotencyKey, WindowKey, RequestHash, CreatedAt)
VALUES (@key, @windowKey, @hash, @createdAt);
