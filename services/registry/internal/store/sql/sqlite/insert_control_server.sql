INSERT INTO TblControlServer (Name, NameKey, GrpcEndpoint, RestEndpoint, Version, ProtocolMin, ProtocolMax, RenewedAt, Connected, ClockAheadMs, ClockAheadWithinMs)
VALUES (@name, @nameKey, @grpcEndpoint, @restEndpoint, @version, @protocolMin, @protocolMax, @now, @connected, @clockAhead, @clockAheadWithin);
