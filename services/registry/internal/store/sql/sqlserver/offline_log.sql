SELECT CreateDate FROM dbo.TblServerOfflineLog
WHERE ServerKey = @serverKey AND (@startAt IS NULL OR CreateDate >= CAST(@startAt AS datetime2(3))) AND (@endAt IS NULL OR CreateDate < CAST(@endAt AS datetime2(3)))
  AND (@lastAt IS NULL OR CreateDate <= CAST(@lastAt AS datetime2(3)))
ORDER BY CreateDate DESC OFFSET @skip ROWS FETCH NEXT @limit ROWS ONLY;
