UPDATE TblIngestEvidence SET
    HealthySince = CASE WHEN @good = 0 THEN NULL WHEN HealthySince IS NULL OR AliveAt < @gapBefore THEN @now ELSE HealthySince END,
    AliveAt = @now, CanaryRoundTripMs = @canary, OldestMessageAgeMs = @oldest, SinceLastReceiveMs = @received
WHERE Path = @path AND ConsumerId = @consumer;
