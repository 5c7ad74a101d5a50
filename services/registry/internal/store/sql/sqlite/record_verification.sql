UPDATE TblAgent SET HttpVerification = @outcome, HttpVerificationDetail = @detail, HttpClaimedUntil = NULL, HttpVerifiedAt = @verifiedAt
WHERE NameKey = @nameKey AND HttpBaseUrl = @httpBaseUrl
  AND (HttpVerifiedAt IS NULL OR HttpVerifiedAt < @verifiedAt OR HttpVerifiedAt > @now OR (HttpVerifiedAt = @verifiedAt AND (@outcome = 2 OR HttpVerification <> 2)));
