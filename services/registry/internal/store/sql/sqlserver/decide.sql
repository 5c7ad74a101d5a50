UPDATE dbo.TblAgent SET RegistrationState = @state, ServerKey = @serverKey, DecidedBy = @actor,
    DecidedAt = SYSUTCDATETIME(), DecisionVersion = DecisionVersion + 1
WHERE AgentKey = @agentKey AND DecisionVersion = @version;
