SELECT AgentKey, NameKey, AffinityGroupKey, PrimaryControlServerKey, SecondaryControlServerKey FROM dbo.TblAgent;
