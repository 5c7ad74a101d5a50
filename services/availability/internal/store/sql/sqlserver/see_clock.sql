UPDATE dbo.TblAvailabilityState SET SeenAt = CAST(@seenAt AS datetime2(3)), SteppedAt = CAST(@steppedAt AS datetime2(3)), StepMs = @stepMs
WHERE StateKey = 1 AND (SeenAt = CAST(@before AS datetime2(3)) OR (SeenAt IS NULL AND CAST(@before AS datetime2(3)) IS NULL));
