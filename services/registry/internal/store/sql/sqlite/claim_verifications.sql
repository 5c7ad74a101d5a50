UPDATE TblAgent SET HttpClaimedUntil = @claimedUntil
WHERE AgentKey IN (
    SELECT AgentKey FROM TblAgent
    WHERE RegistrationState = 2 AND HttpVerification = 1 AND HttpBaseUrl IS NOT NULL
      AND (HttpVerifiedAt <= @dueBefore OR HttpVerifiedAt > @now)
      AND (HttpClaimedUntil IS NULL OR HttpClaimedUntil < @now OR HttpClaimedUntil > @stepped)
    ORDER BY HttpVerifiedAt, AgentKey LIMIT @limit)
RETURNING NameKey;
