SELECT AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs, BrokerAheadMs, BrokerAheadWithinMs FROM TblIngestEvidence WHERE Path = @path
ORDER BY AliveAt, ConsumerId;
