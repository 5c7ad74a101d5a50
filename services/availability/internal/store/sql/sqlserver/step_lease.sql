UPDATE dbo.TblJobLease SET ExpiresAt = CAST(@expiresAt AS datetime2(3)) WHERE Name = N'availability' AND ExpiresAt > CAST(@latest AS datetime2(3));
