SELECT AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs FROM TblIngestEvidence WHERE Path = @path;
