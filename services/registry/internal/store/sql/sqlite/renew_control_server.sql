UPDATE TblControlServer SET GrpcEndpoint = @grpcEndpoint, RestEndpoint = @restEndpoint, Version = @version,
    ProtocolMin = @protocolMin, ProtocolMax = @protocolMax, RenewedAt = @now, Connected = @connected,
    ClockAheadMs = @clockAhead, ClockAheadWithinMs = @clockAheadWithin
WHERE ControlServerKey = @key;
