UPDATE dbo.TblAvailabilityState SET SecondWriterAt = CAST(@now AS datetime2(3)) WHERE SecondWriterAt > CAST(@now AS datetime2(3));
