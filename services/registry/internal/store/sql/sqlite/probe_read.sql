SELECT ProbedAt FROM TblRegistryProbe WHERE ProbeKey = 1;
