UPDATE TblAgent SET
    LastBusHeartbeatAt    = json_extract(v.value, '$[2]'),
    LastDirectHeartbeatAt = json_extract(v.value, '$[3]'),
    BootId                = json_extract(v.value, '$[4]'),
    Sequence              = json_extract(v.value, '$[5]'),
    ObservedAt            = json_extract(v.value, '$[6]'),
    ReportedAt            = json_extract(v.value, '$[7]'),
    EarlierBoots          = json_extract(v.value, '$[8]'),
    BootTurns             = json_extract(v.value, '$[9]'),
    IdentityConflictAt    = json_extract(v.value, '$[10]'),
    HeartbeatVersion      = HeartbeatVersion + 1
FROM json_each(@batch) v
WHERE TblAgent.AgentKey = json_extract(v.value, '$[0]') AND TblAgent.HeartbeatVersion = json_extract(v.value, '$[1]');
