UPDATE TblAgent SET AffinityGroupKey = @group
FROM json_each(@names) n
WHERE TblAgent.NameKey = n.value AND TblAgent.AffinityGroupKey IS NOT @group;
