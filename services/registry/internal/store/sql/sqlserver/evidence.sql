SELECT AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs, BrokerAheadMs, BrokerAheadWithinMs FROM dbo.TblIngestEvidence WHERE Path = @path
ORDER BY AliveAt, ConsumerId;
