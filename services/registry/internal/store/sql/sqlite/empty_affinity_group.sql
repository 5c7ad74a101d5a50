UPDATE TblAgent SET AffinityGroupKey = NULL WHERE AffinityGroupKey = @group;
