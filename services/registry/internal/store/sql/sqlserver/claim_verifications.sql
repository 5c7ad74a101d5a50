DECLARE @due TABLE (AgentKey bigint NOT NULL PRIMARY KEY);
DECLARE @claimed TABLE (AgentKey bigint NOT NULL PRIMARY KEY, NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL);
INSERT INTO @due (AgentKey)
SELECT TOP (@limit) AgentKey FROM dbo.TblAgent WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE RegistrationState = 2 AND HttpVerification = 1 AND HttpBaseUrl IS NOT NULL
  AND (HttpVerifiedAt <= CAST(@dueBefore AS datetime2(3)) OR HttpVerifiedAt > CAST(@now AS datetime2(3)))
  AND (HttpClaimedUntil IS NULL OR HttpClaimedUntil < CAST(@now AS datetime2(3)) OR HttpClaimedUntil > CAST(@stepped AS datetime2(3)))
ORDER BY HttpVerifiedAt, AgentKey;
UPDATE dbo.TblAgent SET HttpClaimedUntil = CAST(@claimedUntil AS datetime2(3))
OUTPUT inserted.AgentKey, inserted.NameKey INTO @claimed
FROM @due v
WHERE v.AgentKey = dbo.TblAgent.AgentKey AND (dbo.TblAgent.HttpClaimedUntil IS NULL OR dbo.TblAgent.HttpClaimedUntil < CAST(@now AS datetime2(3))
    OR dbo.TblAgent.HttpClaimedUntil > CAST(@stepped AS datetime2(3)));
SELECT c.NameKey FROM @due d LEFT JOIN @claimed c ON c.AgentKey = d.AgentKey;
