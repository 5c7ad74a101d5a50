UPDATE dbo.TblJobLease SET ExpiresAt = CAST(SYSUTCDATETIME() AS datetime2(3))
WHERE Name = N'availability' AND FencingToken = @token AND ExpiresAt > CAST(SYSUTCDATETIME() AS datetime2(3));
