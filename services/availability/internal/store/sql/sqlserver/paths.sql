SELECT Path, FrozenSince, BrakeSince, BrakeProofs, BrakeJudgedAt, BrakeOrder, OrderedBy, OrderedAt, Blind, Braked, CrowdOnline, CrowdSilent, Held, BrokerAheadMs, BrokerAheadWithinMs
FROM dbo.TblAvailabilityPath ORDER BY Path;
