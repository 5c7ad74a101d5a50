INSERT INTO TblMaintenanceWindow (ServerKey, StartAt, EndAt, StartLocal, Zone, RRule, DurationMs, Reason, CreatedBy, CreatedAt, LastEndAt)
VALUES (@serverKey, @startAt, @endAt, @startLocal, @zone, @rrule, @durationMs, @reason, @createdBy, @createdAt, @lastEndAt)
RETURNING WindowKey;
