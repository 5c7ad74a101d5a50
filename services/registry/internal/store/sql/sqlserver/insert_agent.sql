INSERT INTO dbo.TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, HttpBaseUrl, ServerKey, DecidedBy, DecidedAt, CreatedAt)
VALUES (@name, @nameKey, @name, 2, 0, @httpBaseUrl, @serverKey, @actor, CAST(@now AS datetime2(3)), CAST(@now AS datetime2(3)));
