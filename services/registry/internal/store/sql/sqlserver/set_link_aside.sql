UPDATE dbo.TblAgent SET ServerKey = -AgentKey, DecisionVersion = DecisionVersion + 1
WHERE AgentKey = @agentKey AND DecisionVersion = @version;
