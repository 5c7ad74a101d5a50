UPDATE TblAgent SET AffinityGroupKey = NULL
WHERE AgentKey IN (SELECT a.AgentKey FROM TblAgent a WHERE a.AffinityGroupKey = @group ORDER BY a.AgentKey LIMIT @limit);
