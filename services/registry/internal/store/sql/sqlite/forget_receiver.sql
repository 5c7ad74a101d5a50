DELETE FROM TblAgentReceiver WHERE AgentKey = @agentKey;
