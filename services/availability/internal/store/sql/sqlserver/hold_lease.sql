DECLARE @held TABLE (Holder nvarchar(256) NOT NULL, FencingToken bigint NOT NULL, ExpiresAt datetime2(3) NOT NULL);
UPDATE dbo.TblJobLease SET
    ExpiresAt = CASE WHEN @milliseconds > 0 THEN DATEADD(millisecond, CAST(@milliseconds AS int), CAST(SYSUTCDATETIME() AS datetime2(3))) ELSE ExpiresAt END
OUTPUT inserted.Holder, inserted.FencingToken, inserted.ExpiresAt INTO @held
WHERE Name = N'availability' AND FencingToken = @token AND ExpiresAt > CAST(SYSUTCDATETIME() AS datetime2(3));
SELECT Holder, FencingToken, ExpiresAt, CAST(SYSUTCDATETIME() AS datetime2(3)) FROM @held;
