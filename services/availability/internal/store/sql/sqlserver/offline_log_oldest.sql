SELECT l.LoggedAt
FROM (SELECT CAST(CreateDate AS datetime2(3)) AS LoggedAt FROM dbo.TblServerOfflineLog WHERE ServerKey = @serverKey) l
WHERE (@startAt IS NULL OR l.LoggedAt >= CAST(@startAt AS datetime2(3))) AND (@endAt IS NULL OR l.LoggedAt < CAST(@endAt AS datetime2(3)))
  AND (@lastAt IS NULL OR l.LoggedAt >= CAST(@lastAt AS datetime2(3)))
ORDER BY l.LoggedAt OFFSET @skip ROWS FETCH NEXT @limit ROWS ONLY;
