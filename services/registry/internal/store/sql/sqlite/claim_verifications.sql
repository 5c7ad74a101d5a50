UPDATE TblAgent SET HttpClaimedUntil = @claimedUntil
WHERE AgentKey IN (
    SELECT AgentKey FROM TblAgent
    WHERE RegistrationState = 2 AND HttpVerification = 1 AND HttpBaseUrl IS NOT NULL AND HttpVerifiedAt <= @dueBefore AND (HttpClaimedUntil IS NULL OR HttpClaimedUntil < @now)
    ORDER BY HttpVerifiedAt LIMIT @limit)
RETURNING NameKey;
