INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, HttpBaseUrl, ServerKey, DecidedBy, DecidedAt, CreatedAt)
VALUES (@name, @nameKey, @name, 2, 0, @httpBaseUrl, @serverKey, @actor, @now, @now);
