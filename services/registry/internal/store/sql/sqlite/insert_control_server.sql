INSERT INTO TblControlServer (Name, NameKey, GrpcEndpoint, RestEndpoint, Version, ProtocolMin, ProtocolMax, RenewedAt, Connected)
VALUES (@name, @nameKey, @grpcEndpoint, @restEndpoint, @version, @protocolMin, @protocolMax, @now, @connected);
