UPDATE TblJobLease SET
    ExpiresAt = CASE WHEN @milliseconds > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('%+.3f seconds', @milliseconds / 1000.0)) ELSE ExpiresAt END
WHERE Name = 'availability' AND FencingToken = @token AND ExpiresAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
RETURNING Holder, FencingToken, ExpiresAt, strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
