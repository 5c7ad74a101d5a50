UPDATE dbo.TblRegistryProbe SET ProbedAt = SYSUTCDATETIME() WHERE ProbeKey = 1;
