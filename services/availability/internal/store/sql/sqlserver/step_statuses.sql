UPDATE dbo.TblAvailabilityStatus SET
    Since          = CASE WHEN Since > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE Since END,
    SecondWriterAt = CASE WHEN SecondWriterAt > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE SecondWriterAt END,
    HeardAt        = CASE WHEN HeardAt > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE HeardAt END
WHERE Since > CAST(@now AS datetime2(3)) OR SecondWriterAt > CAST(@now AS datetime2(3)) OR HeardAt > CAST(@now AS datetime2(3));
