INSERT INTO TblIngestEvidence (Path, ConsumerId, AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs, SinceLastReceiveMs, BrokerAheadMs, BrokerAheadWithinMs)
VALUES (@path, @consumer, @now, CASE WHEN @good = 1 THEN @now END, @canary, @oldest, @received, @brokerAhead, @brokerAheadWithin);
