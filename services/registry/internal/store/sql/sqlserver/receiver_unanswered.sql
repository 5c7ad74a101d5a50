UPDATE dbo.TblAgentReceiver SET Unanswered = Unanswered + 1, UnansweredSince = COALESCE(UnansweredSince, CAST(@sentAt AS datetime2(3)))
WHERE AgentKey = (SELECT a.AgentKey FROM dbo.TblAgent a WHERE a.NameKey = @nameKey)
  AND (AnsweredAt IS NULL OR AnsweredAt < CAST(@sentAt AS datetime2(3)) OR AnsweredAt > CAST(@now AS datetime2(3)));
