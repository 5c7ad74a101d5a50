UPDATE TblAgentReceiver SET AnsweredAt = @now, Unanswered = 0, UnansweredSince = NULL
WHERE AgentKey = (SELECT a.AgentKey FROM TblAgent a WHERE a.NameKey = @nameKey);
