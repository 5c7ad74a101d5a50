SELECT Path, FrozenSince, BrakeSince, BrakeProofs, BrakeJudgedAt, BrakeOrder, OrderedBy, OrderedAt, Blind, Braked, CrowdOnline, CrowdSilent, Held, BrokerAheadMs, BrokerAheadWithinMs
FROM TblAvailabilityPath ORDER BY Path;
