UPDATE dbo.TblAgent SET
    LastBusHeartbeatAt    = v.LastBusHeartbeatAt,
    LastDirectHeartbeatAt = v.LastDirectHeartbeatAt,
    BootId                = v.BootId,
    Sequence              = v.Sequence,
    ObservedAt            = v.ObservedAt,
    ReportedAt            = v.ReportedAt,
    EarlierBoots          = v.EarlierBoots,
    BootTurns             = v.BootTurns,
    IdentityConflictAt    = v.IdentityConflictAt,
    HeartbeatVersion      = dbo.TblAgent.HeartbeatVersion + 1
FROM (
    SELECT * FROM OPENJSON(@batch) WITH (
        AgentKey bigint '$[0]', HeartbeatVersion bigint '$[1]', LastBusHeartbeatAt datetime2(3) '$[2]', LastDirectHeartbeatAt datetime2(3) '$[3]',
        BootId nvarchar(128) '$[4]', Sequence bigint '$[5]', ObservedAt datetime2(3) '$[6]', ReportedAt datetime2(3) '$[7]',
        EarlierBoots nvarchar(max) '$[8]' AS JSON, BootTurns int '$[9]', IdentityConflictAt datetime2(3) '$[10]')
) v
WHERE v.AgentKey = dbo.TblAgent.AgentKey AND v.HeartbeatVersion = dbo.TblAgent.HeartbeatVersion;
