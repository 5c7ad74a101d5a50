SELECT ProbedAt FROM dbo.TblAvailabilityProbe WITH (READPAST) WHERE ProbeKey = 1;
