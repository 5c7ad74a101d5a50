UPDATE dbo.TblAgent SET TokenHash = NULL, TokenClaimable = 1, IdentityConflictAt = NULL, BootTurns = 0, EarlierBoots = NULL,
    DecisionVersion = DecisionVersion + 1, HeartbeatVersion = HeartbeatVersion + 1
WHERE AgentKey = @agentKey AND DecisionVersion = @version;
