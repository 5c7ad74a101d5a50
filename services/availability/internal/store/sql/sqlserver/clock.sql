SELECT CAST(SYSUTCDATETIME() AS datetime2(3)), SeenAt, SteppedAt, StepMs FROM dbo.TblAvailabilityState WHERE StateKey = 1;
