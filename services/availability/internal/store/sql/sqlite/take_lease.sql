UPDATE TblJobLease SET Holder = @holder, FencingToken = FencingToken + 1,
    ExpiresAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('%+.3f seconds', @milliseconds / 1000.0))
WHERE Name = 'availability' AND ExpiresAt <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
RETURNING Holder, FencingToken, ExpiresAt;
