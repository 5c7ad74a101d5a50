DELETE FROM TblAgent WHERE AgentKey = @agentKey AND DecisionVersion = @version;
