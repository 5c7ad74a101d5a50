UPDATE TblAvailabilityState SET SecondWriterAt = @now WHERE SecondWriterAt > @now;
