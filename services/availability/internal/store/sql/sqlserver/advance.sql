DECLARE @advanced TABLE (Revision bigint NOT NULL);
UPDATE dbo.TblAvailabilityState SET Revision = Revision + 1, Acts = Acts + @acts,
    SecondWriterAt = COALESCE(CAST(@secondWriterAt AS datetime2(3)), SecondWriterAt)
OUTPUT inserted.Revision INTO @advanced
WHERE StateKey = 1;
SELECT Revision, CAST(SYSUTCDATETIME() AS datetime2(3)) FROM @advanced;
