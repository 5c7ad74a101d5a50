UPDATE dbo.TblAgent SET HttpVerification = @outcome, HttpVerificationDetail = @detail, HttpClaimedUntil = NULL, HttpVerifiedAt = CAST(@verifiedAt AS datetime2(3))
WHERE NameKey = @nameKey AND HttpBaseUrl = @httpBaseUrl
  AND (HttpVerifiedAt IS NULL OR HttpVerifiedAt < CAST(@verifiedAt AS datetime2(3)) OR HttpVerifiedAt > CAST(@now AS datetime2(3)) OR (HttpVerifiedAt = CAST(@verifiedAt AS datetime2(3)) AND (@outcome = 2 OR HttpVerification <> 2)));
