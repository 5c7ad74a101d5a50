UPDATE dbo.TblControlServer SET GrpcEndpoint = @grpcEndpoint, RestEndpoint = @restEndpoint, Version = @version,
    ProtocolMin = @protocolMin, ProtocolMax = @protocolMax, RenewedAt = CAST(@now AS datetime2(3)), Connected = @connected,
    ClockAheadMs = @clockAhead, ClockAheadWithinMs = @clockAheadWithin
WHERE ControlServerKey = @key;
