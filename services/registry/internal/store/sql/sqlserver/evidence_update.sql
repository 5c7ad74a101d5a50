UPDATE dbo.TblIngestEvidence SET
    HealthySince = CASE WHEN @good = 0 THEN NULL
        WHEN HealthySince IS NULL OR AliveAt < CAST(@gapBefore AS datetime2(3)) OR AliveAt > CAST(@aheadAfter AS datetime2(3)) OR HealthySince > CAST(@now AS datetime2(3))
        THEN CAST(@now AS datetime2(3)) ELSE HealthySince END,
    AliveAt = CAST(@now AS datetime2(3)), CanaryRoundTripMs = @canary, OldestMessageAgeMs = @oldest, SinceLastReceiveMs = @received,
    BrokerAheadMs = @brokerAhead, BrokerAheadWithinMs = @brokerAheadWithin
WHERE Path = @path AND ConsumerId = @consumer;
