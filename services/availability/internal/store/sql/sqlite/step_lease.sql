UPDATE TblJobLease SET ExpiresAt = @expiresAt WHERE Name = 'availability' AND ExpiresAt > @latest;
