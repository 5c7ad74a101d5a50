UPDATE TblAvailabilityState SET SeenAt = @seenAt, SteppedAt = @steppedAt, StepMs = @stepMs
WHERE StateKey = 1 AND (SeenAt = @before OR (SeenAt IS NULL AND @before IS NULL));
