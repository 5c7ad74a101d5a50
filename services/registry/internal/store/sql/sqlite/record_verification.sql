UPDATE TblAgent SET HttpVerification = @outcome, HttpVerificationDetail = @detail, HttpClaimedUntil = NULL,
    HttpVerifiedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE NameKey = @nameKey AND HttpBaseUrl = @httpBaseUrl;
