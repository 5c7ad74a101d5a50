UPDATE TblAgent SET
    LastBusHeartbeatAt = CASE WHEN LastBusHeartbeatAt > @since AND (LastBusHeartbeatAt <= @settled OR LastBusHeartbeatAt > @now)
        THEN MIN(@now, strftime('%Y-%m-%dT%H:%M:%fZ', LastBusHeartbeatAt, printf('%+d seconds', @seconds))) ELSE LastBusHeartbeatAt END,
    LastDirectHeartbeatAt = CASE WHEN LastDirectHeartbeatAt > @since AND (LastDirectHeartbeatAt <= @settled OR LastDirectHeartbeatAt > @now)
        THEN MIN(@now, strftime('%Y-%m-%dT%H:%M:%fZ', LastDirectHeartbeatAt, printf('%+d seconds', @seconds))) ELSE LastDirectHeartbeatAt END,
    HttpVerifiedAt = CASE WHEN HttpVerifiedAt <= @settled OR HttpVerifiedAt > @now
        THEN MIN(@now, strftime('%Y-%m-%dT%H:%M:%fZ', HttpVerifiedAt, printf('%+d seconds', @seconds))) ELSE HttpVerifiedAt END,
    HttpClaimedUntil = NULL, HeartbeatVersion = HeartbeatVersion + 1
WHERE LastBusHeartbeatAt > @since OR LastDirectHeartbeatAt > @since OR HttpVerifiedAt IS NOT NULL;
