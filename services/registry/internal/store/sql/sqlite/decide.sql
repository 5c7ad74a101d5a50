UPDATE TblAgent SET RegistrationState = @state, ServerKey = @serverKey, DecidedBy = @actor,
    DecidedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), DecisionVersion = DecisionVersion + 1
WHERE AgentKey = @agentKey AND DecisionVersion = @version;
