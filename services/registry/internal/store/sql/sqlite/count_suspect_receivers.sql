SELECT COUNT(*)
FROM TblAgentReceiver r
JOIN TblAgent a ON a.AgentKey = r.AgentKey
WHERE r.Unanswered >= @suspectFrom AND a.OnServiceBus = 1 AND a.RegistrationState = @accepted;
