INSERT INTO TblMaintenanceWindow (ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Ends, Reason, CreatedBy, CreatedAt, LastEndAt)
VALUES (@serverKey, @startAt, @endAt, @startLocal, @zone, @rrule, @durationMs, @ends, @reason, @createdBy, @createdAt, @lastEndAt)
RETURNING WindowKey;
