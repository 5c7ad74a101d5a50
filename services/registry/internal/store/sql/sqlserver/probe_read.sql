SELECT ProbedAt FROM dbo.TblRegistryProbe WITH (READPAST) WHERE ProbeKey = 1;
