INSERT INTO TblFormerLink (ServerKey, AgentName, EndedAt) VALUES (@serverKey, @agent, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
