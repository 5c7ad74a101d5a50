UPDATE TblRegistryProbe SET ProbedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE ProbeKey = 1;
