-- The plus keeps the group's index out of it: by that, each of the group's agents would be looked for among the names.
UPDATE TblAgent SET AffinityGroupKey = NULL
FROM json_each(@names) n
WHERE TblAgent.NameKey = n.value AND +TblAgent.AffinityGroupKey = @group;
