SELECT AgentKey, NameKey, AffinityGroupKey, PrimaryControlServerKey, SecondaryControlServerKey FROM dbo.TblAgent WHERE NameKey = @nameKey;
