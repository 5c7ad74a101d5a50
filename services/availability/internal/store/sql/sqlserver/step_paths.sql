UPDATE dbo.TblAvailabilityPath SET
    FrozenSince   = CASE WHEN FrozenSince > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE FrozenSince END,
    BrakeSince    = CASE WHEN BrakeSince > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE BrakeSince END,
    BrakeJudgedAt = CASE WHEN BrakeJudgedAt > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE BrakeJudgedAt END,
    BrakeProofs = 0;
