DELETE FROM dbo.TblAgent WHERE AgentKey = @agentKey AND DecisionVersion = @version;
