INSERT INTO dbo.TblFormerLink (ServerKey, AgentName, EndedAt) VALUES (@serverKey, @agent, SYSUTCDATETIME());
