UPDATE dbo.TblAgentReceiver SET AnsweredAt = CAST(@now AS datetime2(3)), Unanswered = 0, UnansweredSince = NULL
WHERE AgentKey = (SELECT a.AgentKey FROM dbo.TblAgent a WHERE a.NameKey = @nameKey);
