INSERT INTO dbo.TblIngestEvidence (Path, ConsumerId, AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs, SinceLastReceiveMs, BrokerAheadMs, BrokerAheadWithinMs)
VALUES (@path, @consumer, CAST(@now AS datetime2(3)), CASE WHEN @good = 1 THEN CAST(@now AS datetime2(3)) END, @canary, @oldest, @received, @brokerAhead, @brokerAheadWithin);
