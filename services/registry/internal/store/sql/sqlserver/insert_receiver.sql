INSERT INTO dbo.TblAgentReceiver (AgentKey, AnsweredAt, Unanswered, UnansweredSince)
SELECT a.AgentKey, CAST(@answeredAt AS datetime2(3)), @unanswered, CAST(@unansweredSince AS datetime2(3))
FROM dbo.TblAgent a
WHERE a.NameKey = @nameKey AND NOT EXISTS (SELECT 1 FROM dbo.TblAgentReceiver r WHERE r.AgentKey = a.AgentKey);
