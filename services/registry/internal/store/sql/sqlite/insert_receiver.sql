INSERT INTO TblAgentReceiver (AgentKey, AnsweredAt, Unanswered, UnansweredSince)
SELECT a.AgentKey, @answeredAt, @unanswered, @unansweredSince
FROM TblAgent a
WHERE a.NameKey = @nameKey AND NOT EXISTS (SELECT 1 FROM TblAgentReceiver r WHERE r.AgentKey = a.AgentKey);
