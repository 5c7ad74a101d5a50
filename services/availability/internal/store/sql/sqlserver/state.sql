SELECT Revision, Acts, SecondWriterAt, CAST(SYSUTCDATETIME() AS datetime2(3)) FROM dbo.TblAvailabilityState WHERE StateKey = 1;
