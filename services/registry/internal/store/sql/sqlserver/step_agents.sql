UPDATE dbo.TblAgent SET
    LastBusHeartbeatAt = CASE WHEN LastBusHeartbeatAt > CAST(@since AS datetime2(3)) AND (LastBusHeartbeatAt <= CAST(@settled AS datetime2(3)) OR LastBusHeartbeatAt > CAST(@now AS datetime2(3)))
        THEN CASE WHEN DATEADD(second, CAST(@seconds AS int), LastBusHeartbeatAt) > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE DATEADD(second, CAST(@seconds AS int), LastBusHeartbeatAt) END ELSE LastBusHeartbeatAt END,
    LastDirectHeartbeatAt = CASE WHEN LastDirectHeartbeatAt > CAST(@since AS datetime2(3)) AND (LastDirectHeartbeatAt <= CAST(@settled AS datetime2(3)) OR LastDirectHeartbeatAt > CAST(@now AS datetime2(3)))
        THEN CASE WHEN DATEADD(second, CAST(@seconds AS int), LastDirectHeartbeatAt) > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE DATEADD(second, CAST(@seconds AS int), LastDirectHeartbeatAt) END ELSE LastDirectHeartbeatAt END,
    HttpVerifiedAt = CASE WHEN HttpVerifiedAt <= CAST(@settled AS datetime2(3)) OR HttpVerifiedAt > CAST(@now AS datetime2(3))
        THEN CASE WHEN DATEADD(second, CAST(@seconds AS int), HttpVerifiedAt) > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE DATEADD(second, CAST(@seconds AS int), HttpVerifiedAt) END ELSE HttpVerifiedAt END,
    HttpClaimedUntil = NULL, HeartbeatVersion = HeartbeatVersion + 1
WHERE LastBusHeartbeatAt > CAST(@since AS datetime2(3)) OR LastDirectHeartbeatAt > CAST(@since AS datetime2(3)) OR HttpVerifiedAt IS NOT NULL;
