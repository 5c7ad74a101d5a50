SELECT Holder, FencingToken, ExpiresAt, ExpiresAt > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM TblJobLease WHERE Name = 'availability';
