-- The plus keeps the group's index out of it: by that, each of the group's agents would be looked for among the names.
SELECT COUNT(*)
FROM json_each(@names) n
JOIN TblAgent a ON a.NameKey = n.value
WHERE +a.AffinityGroupKey = @group;
