SELECT Holder, FencingToken, ExpiresAt, CASE WHEN ExpiresAt > CAST(SYSUTCDATETIME() AS datetime2(3)) THEN 1 ELSE 0 END FROM dbo.TblJobLease WHERE Name = N'availability';
