UPDATE TblControlServer SET RenewedAt = @endedAt
WHERE NameKey = @nameKey AND GrpcEndpoint = @grpcEndpoint AND RenewedAt > @endedAt;
