SELECT g.GroupKey, g.Name, g.NameKey, g.DecisionVersion, (SELECT COUNT(*) FROM TblAgent a WHERE a.AffinityGroupKey = g.GroupKey)
FROM TblAffinityGroup g
ORDER BY g.NameKey;
