UPDATE TblAvailabilityPath SET
    FrozenSince   = json_extract(v.value, '$[1]'),
    BrakeSince    = json_extract(v.value, '$[2]'),
    BrakeProofs   = json_extract(v.value, '$[3]'),
    BrakeJudgedAt = json_extract(v.value, '$[4]'),
    Blind         = json_extract(v.value, '$[5]'),
    Braked        = json_extract(v.value, '$[6]'),
    CrowdOnline   = json_extract(v.value, '$[7]'),
    CrowdSilent   = json_extract(v.value, '$[8]'),
    Held          = json_extract(v.value, '$[9]'),
    BrokerAheadMs = json_extract(v.value, '$[10]'),
    BrokerAheadWithinMs = json_extract(v.value, '$[11]'),
    StartingUntil = json_extract(v.value, '$[12]'),
    BrakeOrder    = CASE WHEN OrderedAt = json_extract(v.value, '$[13]') THEN 0 ELSE BrakeOrder END,
    OrderedBy     = CASE WHEN OrderedAt = json_extract(v.value, '$[13]') THEN NULL ELSE OrderedBy END,
    OrderedAt     = CASE WHEN OrderedAt = json_extract(v.value, '$[13]') THEN NULL ELSE OrderedAt END
FROM json_each(@batch) v
WHERE TblAvailabilityPath.Path = json_extract(v.value, '$[0]');
