UPDATE TblAvailabilityPath SET FrozenSince = MIN(FrozenSince, @now), BrakeSince = MIN(BrakeSince, @now), BrakeJudgedAt = MIN(BrakeJudgedAt, @now), BrakeProofs = 0;
