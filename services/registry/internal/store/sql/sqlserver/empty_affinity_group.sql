UPDATE dbo.TblAgent SET AffinityGroupKey = NULL
WHERE AgentKey IN (SELECT TOP (@limit) a.AgentKey FROM dbo.TblAgent a WHERE a.AffinityGroupKey = @group ORDER BY a.AgentKey);
