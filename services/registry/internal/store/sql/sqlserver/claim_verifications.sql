DECLARE @claimed TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2);
UPDATE dbo.TblAgent SET HttpClaimedUntil = CAST(@claimedUntil AS datetime2(3))
OUTPUT inserted.NameKey INTO @claimed
FROM (
    SELECT TOP (@limit) AgentKey FROM dbo.TblAgent
    WHERE RegistrationState = 2 AND HttpVerification = 1 AND HttpBaseUrl IS NOT NULL
      AND (HttpVerifiedAt <= CAST(@dueBefore AS datetime2(3)) OR HttpVerifiedAt > CAST(@now AS datetime2(3)))
      AND (HttpClaimedUntil IS NULL OR HttpClaimedUntil < CAST(@now AS datetime2(3)) OR HttpClaimedUntil > CAST(@claimedUntil AS datetime2(3)))
    ORDER BY HttpVerifiedAt) v
WHERE v.AgentKey = dbo.TblAgent.AgentKey AND (dbo.TblAgent.HttpClaimedUntil IS NULL OR dbo.TblAgent.HttpClaimedUntil < CAST(@now AS datetime2(3))
    OR dbo.TblAgent.HttpClaimedUntil > CAST(@claimedUntil AS datetime2(3)));
SELECT NameKey FROM @claimed;
