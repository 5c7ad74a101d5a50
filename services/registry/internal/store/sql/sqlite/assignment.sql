SELECT AgentKey, NameKey, AffinityGroupKey, PrimaryControlServerKey, SecondaryControlServerKey FROM TblAgent WHERE NameKey = @nameKey;
