UPDATE TblIngestEvidence SET
    HealthySince = CASE WHEN @good = 0 THEN NULL WHEN HealthySince IS NULL OR AliveAt < @gapBefore OR AliveAt > @aheadAfter OR HealthySince > @now THEN @now ELSE HealthySince END,
    AliveAt = @now, CanaryRoundTripMs = @canary, OldestMessageAgeMs = @oldest, SinceLastReceiveMs = @received,
    BrokerAheadMs = @brokerAhead, BrokerAheadWithinMs = @brokerAheadWithin
WHERE Path = @path AND ConsumerId = @consumer;
