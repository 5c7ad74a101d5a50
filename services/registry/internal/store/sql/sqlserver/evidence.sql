SELECT AliveAt, HealthySince, CanaryRoundTripMs, OldestMessageAgeMs FROM dbo.TblIngestEvidence WHERE Path = @path;
