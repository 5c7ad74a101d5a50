SELECT Path, FrozenSince, BrakeSince, BrakeProofs, BrakeJudgedAt, BrakeOrder, OrderedBy, OrderedAt, Blind, Braked, CrowdOnline, CrowdSilent, Held, BrokerAheadMs, BrokerAheadWithinMs, StartingUntil
FROM dbo.TblAvailabilityPath ORDER BY Path;
