UPDATE TblAvailabilityStatus SET Since = MIN(Since, @now), SecondWriterAt = MIN(SecondWriterAt, @now), HeardAt = MIN(HeardAt, @now)
WHERE Since > @now OR SecondWriterAt > @now OR HeardAt > @now;
