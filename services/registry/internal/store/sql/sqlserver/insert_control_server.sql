INSERT INTO dbo.TblControlServer (Name, NameKey, GrpcEndpoint, RestEndpoint, Version, ProtocolMin, ProtocolMax, RenewedAt, Connected, ClockAheadMs, ClockAheadWithinMs)
VALUES (@name, @nameKey, @grpcEndpoint, @restEndpoint, @version, @protocolMin, @protocolMax, CAST(@now AS datetime2(3)), @connected, @clockAhead, @clockAheadWithin);
