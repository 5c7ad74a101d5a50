SELECT CreateDate FROM TblServerOfflineLog
WHERE ServerKey = @serverKey AND (@startAt IS NULL OR CreateDate >= @startAt) AND (@endAt IS NULL OR CreateDate < @endAt)
  AND (@lastAt IS NULL OR CreateDate >= @lastAt)
ORDER BY CreateDate LIMIT @limit OFFSET @skip;
