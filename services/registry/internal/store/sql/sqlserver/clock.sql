SELECT CAST(SYSUTCDATETIME() AS datetime2(3)), SeenAt, SteppedAt, StepMs FROM dbo.TblRegistryClock WHERE StateKey = 1;
