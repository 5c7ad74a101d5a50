SELECT Path, FrozenSince, BrakeSince, BrakeProofs, BrakeJudgedAt, BrakeOrder, OrderedBy, OrderedAt, Blind, Braked, CrowdOnline, CrowdSilent, Held
FROM dbo.TblAvailabilityPath ORDER BY Path;
