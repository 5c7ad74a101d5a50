DELETE FROM dbo.TblAgentReceiver WHERE AgentKey = @agentKey;
