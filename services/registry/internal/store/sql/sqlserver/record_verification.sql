UPDATE dbo.TblAgent SET HttpVerification = @outcome, HttpVerificationDetail = @detail, HttpClaimedUntil = NULL,
    HttpVerifiedAt = SYSUTCDATETIME()
WHERE NameKey = @nameKey AND HttpBaseUrl = @httpBaseUrl;
