DECLARE @taken TABLE (Holder nvarchar(256) NOT NULL, FencingToken bigint NOT NULL, ExpiresAt datetime2(3) NOT NULL);
UPDATE dbo.TblJobLease SET Holder = @holder, FencingToken = FencingToken + 1,
    ExpiresAt = DATEADD(millisecond, CAST(@milliseconds AS int), CAST(SYSUTCDATETIME() AS datetime2(3)))
OUTPUT inserted.Holder, inserted.FencingToken, inserted.ExpiresAt INTO @taken
WHERE Name = N'availability' AND ExpiresAt <= CAST(SYSUTCDATETIME() AS datetime2(3));
SELECT Holder, FencingToken, ExpiresAt FROM @taken;
