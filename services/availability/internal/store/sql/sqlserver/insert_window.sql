DECLARE @made TABLE (WindowKey bigint NOT NULL);
INSERT INTO dbo.TblMaintenanceWindow (ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt)
OUTPUT inserted.WindowKey INTO @made
VALUES (@serverKey, CAST(@startAt AS datetime2(3)), CAST(@endAt AS datetime2(3)), @startLocal, @zone, @rrule, @durationMs, @ends, @reason, @createdBy,
    CAST(@createdAt AS datetime2(3)), CAST(@lastEndAt AS datetime2(3)));
SELECT WindowKey FROM @made;
