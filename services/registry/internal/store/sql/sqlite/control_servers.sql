SELECT c.ControlServerKey, c.Name, c.GrpcEndpoint, c.RestEndpoint, c.Version, c.ProtocolMin, c.ProtocolMax, c.Mode, c.Weight, c.Standby,
       c.AffinityGroupKey, g.Name, c.ChangedBy, c.DecisionVersion, c.RenewedAt, c.Connected, c.Listed, c.UnlistedAt, c.UnlistedAs, c.ClockAheadMs, c.ClockAheadWithinMs
FROM TblControlServer c
LEFT JOIN TblAffinityGroup g ON g.GroupKey = c.AffinityGroupKey;
