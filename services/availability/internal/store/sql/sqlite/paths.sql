SELECT Path, FrozenSince, BrakeSince, BrakeProofs, BrakeJudgedAt, BrakeOrder, OrderedBy, OrderedAt, Blind, Braked, CrowdOnline, CrowdSilent, Held
FROM TblAvailabilityPath ORDER BY Path;
