UPDATE TblAgentReceiver SET Unanswered = Unanswered + 1, UnansweredSince = COALESCE(UnansweredSince, @sentAt)
WHERE AgentKey = (SELECT a.AgentKey FROM TblAgent a WHERE a.NameKey = @nameKey)
  AND (AnsweredAt IS NULL OR AnsweredAt < @sentAt OR AnsweredAt > @now);
