SELECT ProbedAt FROM TblAvailabilityProbe WHERE ProbeKey = 1;
