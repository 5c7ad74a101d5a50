UPDATE dbo.TblAvailabilityProbe SET ProbedAt = SYSUTCDATETIME() WHERE ProbeKey = 1;
