SELECT g.GroupKey, g.Name, g.NameKey, g.DecisionVersion, (SELECT COUNT_BIG(*) FROM dbo.TblAgent a WHERE a.AffinityGroupKey = g.GroupKey)
FROM dbo.TblAffinityGroup g
ORDER BY g.NameKey;
