SELECT COUNT(*)
FROM dbo.TblAgentReceiver r
JOIN dbo.TblAgent a ON a.AgentKey = r.AgentKey
WHERE r.Unanswered >= @suspectFrom AND a.OnServiceBus = 1 AND a.RegistrationState = @accepted;
