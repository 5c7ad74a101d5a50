UPDATE dbo.TblAgent SET AffinityGroupKey = NULL WHERE AffinityGroupKey = @group;
