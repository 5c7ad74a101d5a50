UPDATE dbo.TblAgent SET
    HttpVerifiedAt         = CASE WHEN COALESCE(HttpBaseUrl, N'') <> COALESCE(@httpBaseUrl, N'') THEN NULL ELSE HttpVerifiedAt END,
    HttpVerification       = CASE WHEN COALESCE(HttpBaseUrl, N'') <> COALESCE(@httpBaseUrl, N'') THEN 0 ELSE HttpVerification END,
    HttpVerificationDetail = CASE WHEN COALESCE(HttpBaseUrl, N'') <> COALESCE(@httpBaseUrl, N'') THEN NULL ELSE HttpVerificationDetail END,
    HttpClaimedUntil       = CASE WHEN COALESCE(HttpBaseUrl, N'') <> COALESCE(@httpBaseUrl, N'') THEN NULL ELSE HttpClaimedUntil END,
    HttpBaseUrl = @httpBaseUrl, OnServiceBus = @onServiceBus, DecisionVersion = DecisionVersion + 1
WHERE AgentKey = @agentKey AND DecisionVersion = @version;
