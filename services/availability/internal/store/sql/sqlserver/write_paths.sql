UPDATE dbo.TblAvailabilityPath SET
    FrozenSince   = v.FrozenSince,
    BrakeSince    = v.BrakeSince,
    BrakeProofs   = v.BrakeProofs,
    BrakeJudgedAt = v.BrakeJudgedAt,
    Blind         = v.Blind,
    Braked        = v.Braked,
    CrowdOnline   = v.CrowdOnline,
    CrowdSilent   = v.CrowdSilent,
    Held          = v.Held,
    BrokerAheadMs = v.BrokerAheadMs,
    BrokerAheadWithinMs = v.BrokerAheadWithinMs,
    StartingUntil = v.StartingUntil,
    BrakeOrder    = CASE WHEN dbo.TblAvailabilityPath.OrderedAt = v.EndedOrderedAt THEN 0 ELSE dbo.TblAvailabilityPath.BrakeOrder END,
    OrderedBy     = CASE WHEN dbo.TblAvailabilityPath.OrderedAt = v.EndedOrderedAt THEN NULL ELSE dbo.TblAvailabilityPath.OrderedBy END,
    OrderedAt     = CASE WHEN dbo.TblAvailabilityPath.OrderedAt = v.EndedOrderedAt THEN NULL ELSE dbo.TblAvailabilityPath.OrderedAt END
FROM (
    SELECT * FROM OPENJSON(@batch) WITH (
        Path int '$[0]', FrozenSince datetime2(3) '$[1]', BrakeSince datetime2(3) '$[2]', BrakeProofs int '$[3]', BrakeJudgedAt datetime2(3) '$[4]',
        Blind nvarchar(128) '$[5]', Braked bit '$[6]', CrowdOnline int '$[7]', CrowdSilent int '$[8]', Held int '$[9]',
        BrokerAheadMs bigint '$[10]', BrokerAheadWithinMs bigint '$[11]', StartingUntil datetime2(3) '$[12]', EndedOrderedAt datetime2(3) '$[13]')
) v
WHERE v.Path = dbo.TblAvailabilityPath.Path;
