UPDATE TblJobLease SET ExpiresAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE Name = 'availability' AND FencingToken = @token AND ExpiresAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
